-- SPDX-License-Identifier: LGPL-2.1-or-later
-- Work SECONDS
module Main (main) where

import Data.IORef
import System.CPUTime
import System.Environment

leaf :: Int -> Int -> Int
leaf 0 total = total
leaf n total = leaf (n - 1) (total + n * n)
{-# NOINLINE leaf #-}

middle :: Integer -> IORef Int -> IO ()
middle finish total = do
  now <- getCPUTime
  if now >= finish
    then return ()
    else do
      modifyIORef' total (leaf 100000)
      middle finish total
{-# NOINLINE middle #-}

main :: IO ()
main = do
  [seconds] <- getArgs
  total <- newIORef 0
  middle (round (read seconds * 1e12 :: Double)) total
  readIORef total >>= print
