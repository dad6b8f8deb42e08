# SPDX-License-Identifier: LGPL-2.1-or-later
# A call tree in which each name is at one place, so that a sampled stack can be judged: call-tree.rb SECONDS
require 'zlib'

def leaf_of_sorting(n)
  total = 0
  i = 0
  while i < n
    total += i * i
    i += 1
  end
  total
end

def sort_key(value)
  leaf_of_sorting(60)
  -value
end

def through_sort
  (1..30).to_a.sort_by { |value| sort_key(value) }
end

def leaf_of_mapping(n)
  total = 0
  n.times { |i| total += i }
  total
end

def through_each
  total = 0
  [1, 2, 3, 4].each do |n|
    total += leaf_of_mapping(n * 40) +
      leaf_of_mapping(n * 41)
  end
  total
end

def leaf_of_replacing(n)
  text = +''
  i = 0
  while i < n
    text << (65 + i % 26)
    i += 1
  end
  text
end

def through_re
  'a1b2c3'.gsub(/[0-9]/) do |digit|
    leaf_of_replacing(
      digit.to_i * 100)
  end
end

def leaf_of_yielding(n)
  total = 0
  i = 0
  while i < n
    total += i % 7
    i += 1
  end
  total
end

def yielding
  yield 100
  yield 200
end

def through_yield
  yielding { |n| leaf_of_yielding(n) }
end

class Odd
  attr_reader :found

  def initialize
    @found = 1
  end

  def method_missing(name, *arguments)
    find(300)
  end

  def respond_to_missing?(name, all = false)
    true
  end

  def find(n)
    i = 0
    while i < n
      @found += i
      i += 1
    end
    @found
  end

  def self.made(n)
    bound = lambda do |m|
      total = n
      i = 0
      while i < m
        total += i
        i += 1
      end
      total
    end
    bound.call(700)
  end

  define_method(:defined) do |n|
    i = 0
    i += 1 while i < n
    i
  end
end

def through_objects
  odd = Odd.new
  odd.missing + Odd.made(3) + odd.defined(500)
end

def bottom(n)
  total = 0
  i = 0
  while i < n
    total += i
    i += 1
  end
  total
end

def descend(depth)
  return bottom(500) if depth.zero?
  descend(depth - 1) + 1
end

def through_recursion
  descend(12)
end

eval("def generated(n) = made_up(n)\ndef made_up(n)\n  i = 0\n  i += 1 while i < n\n  i\nend", binding, '/tmp/generated.rb', 1)

def through_eval
  generated(600)
end

def leaf_of_rescue(n)
  i = 0
  i += 1 while i < n
  i
end

def through_rescue
  begin
    raise 'an exception'
  rescue StandardError
    leaf_of_rescue(300)
  ensure
    leaf_of_rescue(301)
  end
end

def leaf_of_inject(n)
  i = 0
  i += 1 while i < n
  i
end

def through_inject
  (1..10).inject { |total, n| total + leaf_of_inject(n * 20) }
end

def turn
  through_sort
  through_each
  through_re
  through_yield
  through_objects
  through_recursion
  through_eval
  through_rescue
  through_inject
end

# It lets others run meanwhile.
def compress(finish)
  data = 'some text to compress, ' * 20_000
  Zlib.deflate(data, 9) while Process.clock_gettime(Process::CLOCK_MONOTONIC) < finish
end

def main(seconds)
  finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
  thread = Thread.new { compress(finish) }
  turn while Process.clock_gettime(Process::CLOCK_MONOTONIC) < finish
  thread.join
end

main(ARGV[0].to_f)
