# The load of ruby: calls, blocks, fibers, strings, regular expressions, JSON, exceptions, garbage.
require 'json'

def fib(n) = n < 2 ? n : fib(n - 1) + fib(n - 2)

Shape = Struct.new(:a) do
  def area = a * a
end

def garbage = Array.new(3000) { |i| Shape.new(i) }.sort_by { |s| -s.area }.sum(&:area)

def words
  text = 'the quick brown fox jumps over the lazy dog ' * 300
  text.gsub(/(\w+) (\w+)/) { "#{$2} #{$1}" }.split.tally
end

def documents = JSON.parse(JSON.generate(Array.new(1000) { |i| { id: i, tags: ['a', i.to_s] } }))

def fibers
  f = Fiber.new { 200.times { |i| Fiber.yield(fib(5) + i) } }
  200.times { f.resume }
end

def throwing(n)
  raise 'at the bottom' if n == 0
  throwing(n - 1)
ensure
  n += 1
end

finish = Time.now + ARGV[0].to_f
while Time.now < finish
  fib(18)
  garbage
  words
  documents
  fibers
  100.times { throwing(20) rescue nil }
end
