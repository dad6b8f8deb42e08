// SPDX-License-Identifier: LGPL-2.1-or-later
// java Work SECONDS
public class Work {
  static volatile long sum;

  static void leaf(int rounds) {
    for (int i = 0; i < rounds; i++)
      sum += i;
  }

  static void middle(long end) {
    while (System.nanoTime() < end)
      leaf(100000);
    sum++;
  }

  static void outer(long end) {
    middle(end);
    sum++;
  }

  public static void main(String[] args) {
    outer(System.nanoTime() + (long) (Double.parseDouble(args[0]) * 1e9));
  }
}
