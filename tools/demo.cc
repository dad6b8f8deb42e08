// SPDX-License-Identifier: LGPL-2.1-or-later
// What tools/demo.sh profiles: formulas, words, numbers, pictures and queens, a moment each, for so many seconds.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

using namespace std::chrono_literals;

// A formula such as "(1+2)*3": the classic of three functions that call each other.
class Parser {
public:
  explicit Parser(const std::string &text) : next(text.c_str()) {}
  double parse_sum();

private:
  double parse_product();
  double parse_factor();

  const char *next;
};

double Parser::parse_sum()
{
  double value = parse_product();
  while (*next == '+')
    ++next, value += parse_product();
  return value;
}

double Parser::parse_product()
{
  double value = parse_factor();
  while (*next == '*')
    ++next, value *= parse_factor();
  return value;
}

double Parser::parse_factor()
{
  if (*next == '(') {
    ++next;
    double value = parse_sum();
    ++next; // the other parenthesis
    return value;
  }
  char *end;
  double value = std::strtod(next, &end);
  next = end;
  return value;
}

int calculate()
{
  const std::string formula = "((1.5+2.25)*0.75+3)*(4+(5.5+6)*0.125)";
  double sum = 0;
  for (int i = 0; i < 1000; i++)
    sum += Parser(formula).parse_sum();
  return int(sum);
}

// Numbers that look random and are the same each time.
class Numbers {
public:
  int next(int below)
  {
    state = state * 1664525 + 1013904223;
    return int((state >> 16) % unsigned(below));
  }

private:
  unsigned state = 1;
};

// A sorted tree of words, without any balance.
struct Node {
  explicit Node(const char *text) : word(text) {}
  void insert(const char *text);

  std::string word;
  int count = 1;
  std::unique_ptr<Node> left, right;
};

void Node::insert(const char *text)
{
  const int order = std::strcmp(text, word.c_str());
  std::unique_ptr<Node> &next = order < 0 ? left : right;
  if (order == 0)
    count++;
  else if (next)
    next->insert(text);
  else
    next = std::make_unique<Node>(text);
}

int count_words()
{
  Node root("sonde");
  Numbers numbers;
  for (int i = 0; i < 10000; i++) {
    const char word[] = {char('p' + numbers.next(7)), char('a' + numbers.next(5)), '\0'};
    root.insert(word);
  }
  return root.count;
}

// A template, with a lambda that says what comes first.
template <typename Item, typename Less> void insertion_sort(Item *items, int n_items, Less less)
{
  for (int i = 1; i < n_items; i++)
    for (int j = i; j > 0 && less(items[j], items[j - 1]); j--)
      std::swap(items[j], items[j - 1]);
}

template <typename Item, typename Less> void quick_sort(Item *items, int n_items, Less less)
{
  if (n_items < 24)
    return insertion_sort(items, n_items, less);
  int middle = 0;
  for (int i = 1; i < n_items; i++)
    if (less(items[i], items[0]))
      std::swap(items[++middle], items[i]);
  std::swap(items[0], items[middle]);
  quick_sort(items, middle, less);
  quick_sort(items + middle + 1, n_items - middle - 1, less);
}

int sort_numbers()
{
  Numbers numbers;
  int list[300] = {};
  for (int i = 0; i < 50; i++) {
    for (int &item : list)
      item = numbers.next(60000);
    quick_sort(list, 300, [](int a, int b) { return a < b; });
  }
  return list[0];
}

// The Mandelbrot set, in either precision.
template <typename Number> int escape_time(Number x, Number y)
{
  Number a = 0, b = 0;
  int steps = 0;
  for (; steps < 200 && a * a + b * b < 4; steps++) {
    const Number c = a * a - b * b + x;
    b = 2 * a * b + y;
    a = c;
  }
  return steps;
}

template <typename Number> int draw_picture(int width, int height)
{
  int sum = 0;
  for (int row = 0; row < height; row++)
    for (int column = 0; column < width; column++)
      sum += escape_time(Number(3 * column) / width - 2, Number(2 * row) / height - 1);
  return sum;
}

int draw_pictures()
{
  return draw_picture<float>(60, 30) + draw_picture<double>(80, 40);
}

// In how many ways queens that do not attack each other can be placed, a row at a time.
struct Board {
  unsigned all, columns, rising, falling;
};

int place_queens(const Board &board)
{
  if (board.columns == board.all)
    return 1;
  int ways = 0;
  for (unsigned free = board.all & ~(board.columns | board.rising | board.falling); free; free &= free - 1) {
    const unsigned place = free & -free;
    ways += place_queens({board.all, board.columns | place, (board.rising | place) << 1, (board.falling | place) >> 1});
  }
  return ways;
}

int solve_queens()
{
  return place_queens({(1 << 8) - 1, 0, 0, 0});
}

int main(int argc, char **argv)
{
  using Clock = std::chrono::steady_clock;
  const struct {
    int (*work)();
    std::chrono::milliseconds time;
  } phases[] = {{calculate, 300ms}, {count_words, 250ms}, {sort_numbers, 250ms}, {draw_pictures, 350ms}, {solve_queens, 200ms}};
  const auto end = Clock::now() + std::chrono::seconds(argc > 1 ? std::atoi(argv[1]) : 5);
  int n_phases = 0, result = 0;

  while (Clock::now() < end) {
    const auto &phase = phases[n_phases++ % std::size(phases)];
    const auto next = Clock::now() + phase.time;
    while (Clock::now() < next)
      result ^= phase.work();
  }
  std::printf("%d phases, and the result is %d\n", n_phases, result);
}
