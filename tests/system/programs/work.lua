-- SPDX-License-Identifier: LGPL-2.1-or-later
-- lua work.lua SECONDS
local function leaf(rounds)
  local sum = 0
  for i = 1, rounds do
    sum = (sum + i * i) % 1000003
  end
  return sum
end

local function middle(finish)
  while os.clock() < finish do
    leaf(10000)
  end
  return finish
end

local function outer(finish)
  return middle(finish) + 1
end

outer(tonumber(arg[1]))
