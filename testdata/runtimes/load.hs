-- The load of ghc: laziness, garbage, maps, exceptions.
module Main where

import Control.Exception
import qualified Data.Map.Strict as M
import Data.List (foldl', sort)
import Data.Time.Clock
import System.Environment

fib :: Int -> Integer
fib n = if n < 2 then toInteger n else fib (n - 1) + fib (n - 2)

garbage :: Int -> Int
garbage k = M.size (foldl' (\m i -> M.insertWith (+) (show (i * 7919 `mod` 10007)) 1 m) M.empty [k .. k + 20000])

throwing :: Int -> IO Int
throwing 0 = throwIO (userError "at the bottom")
throwing n = (+ 1) <$> throwing (n - 1)

work :: UTCTime -> Int -> IO Int
work finish k = do
  now <- getCurrentTime
  if now > finish
    then return k
    else do
      a <- evaluate (fib 22)
      b <- evaluate (garbage k)
      c <- throwing 50 `catch` \e -> return (length (show (e :: IOException)))
      d <- evaluate (sum (take 100 (sort [x * 7919 `mod` 10007 | x <- [k .. k + 5000]])))
      work finish $! (k + fromInteger a + b + c + d) `mod` 1000

main :: IO ()
main = do
  [seconds] <- getArgs
  now <- getCurrentTime
  work (addUTCTime (fromInteger (read seconds)) now) 1 >>= print
