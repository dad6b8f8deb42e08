// SPDX-License-Identifier: LGPL-2.1-or-later
// Work whose stacks are mostly inlined functions of the standard library: inlined SECONDS
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

namespace
{
struct Item
{
  std::string name;
  unsigned value;

  bool operator< (const Item &other) const
  {
    return value < other.value || (value == other.value && name < other.name);
  }
};

unsigned
next_number (unsigned &state)
{
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state;
}

unsigned long
work (unsigned &state)
{
  std::vector<Item> items;
  std::unordered_map<std::string, int> counts;
  std::map<unsigned, std::string> tree;
  unsigned long sum = 0;

  for (int i = 0; i < 5000; i++)
    {
      Item item{ std::to_string (next_number (state) % 3000), next_number (state) % 1000 };

      counts[item.name]++;
      tree[item.value] += item.name;
      items.push_back (item);
    }
  std::sort (items.begin (), items.end ());
  for (const auto &item : items)
    sum += std::accumulate (item.name.begin (), item.name.end (), item.value);
  for (const auto &count : counts)
    sum += count.second;
  for (const auto &node : tree)
    sum += node.second.size ();
  return sum;
}
}

int
main (int argc, char **argv)
{
  auto end = std::chrono::steady_clock::now ()
             + std::chrono::milliseconds (static_cast<int> (1000 * std::atof (argv[argc - 1])));
  unsigned state = 7;
  unsigned long sum = 0;

  while (std::chrono::steady_clock::now () < end)
    sum += work (state);
  std::cout << sum << std::endl;
}
