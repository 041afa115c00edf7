# Known functions: the comment of each line names its function and, after >, those that it calls.
#
# A sample is right if the innermost function is at a line of its own, and each caller at a line that calls the next one.

def spin(n)  # spin
  t = 0  # spin
  i = 0  # spin
  while i < n  # spin
    t += i * i  # spin
    i += 1  # spin
  end  # spin
  t  # spin
end  # spin

def inner(n)  # inner
  spin(n)  # inner > spin
end  # inner

def deep(d, n)  # deep
  return inner(n) if d == 0  # deep > inner
  deep(d - 1, n)  # deep > deep
end  # deep

class Größe
  def berechne_größe_数(n)  # berechne_größe_数
    spin(n)  # berechne_größe_数 > spin
  end  # berechne_größe_数

  define_method(:defined) do |n|  # block_in_<class:Größe>
    spin(n)  # block_in_<class:Größe> > spin
  end  # block_in_<class:Größe>

  def method_missing(name, n)  # method_missing
    spin(n)  # method_missing > spin
  end  # method_missing
end

def values(n)  # values
  i = 0  # values
  while i < n  # values
    yield spin(50)  # values > spin block_in_main
    i += 1  # values
  end  # values
end  # values

def enumerate(n)  # enumerate
  Enumerator.new do |y|  # enumerate
    n.times do  # block_in_enumerate > block_(2_levels)_in_enumerate
      y << spin(50)  # block_(2_levels)_in_enumerate > spin
    end  # block_in_enumerate
  end  # enumerate
end  # enumerate

def each_value(n)  # each_value
  e = enumerate(n)  # each_value > enumerate
  n.times do  # each_value > block_in_each_value
    e.next  # block_in_each_value > block_in_enumerate
  end  # each_value
end  # each_value

def fibers(n)  # fibers
  f = Fiber.new do  # fibers
    loop do  # block_in_fibers > block_(2_levels)_in_fibers
      Fiber.yield spin(50)  # block_(2_levels)_in_fibers > spin
    end  # block_in_fibers
  end  # fibers
  i = 0  # fibers
  while i < n  # fibers
    f.resume  # fibers > block_in_fibers
    i += 1  # fibers
  end  # fibers
end  # fibers

def key(x)  # key
  spin(3) + x  # key > spin
end  # key

def sorted(n)  # sorted
  (0...n).to_a.sort do |a, b|  # sorted > block_in_sorted
    key(a) <=> key(b)  # block_in_sorted > key
  end  # sorted
end  # sorted

def nested(n)  # nested
  [n].each do |x|  # nested > block_in_nested
    [x].map do |y|  # block_in_nested > block_(2_levels)_in_nested
      spin(y)  # block_(2_levels)_in_nested > spin
    end  # block_in_nested
  end  # nested
end  # nested

def rescued(n)  # rescued
  begin  # rescued
    raise ArgumentError if n > 0  # rescued > rescue_in_rescued
  rescue ArgumentError  # rescued > rescue_in_rescued
    spin(n)  # rescue_in_rescued > spin
  ensure  # rescued
    spin(n)  # rescued > spin
  end  # rescued
end  # rescued

LONG = "long_" + "x" * 900
eval("def #{LONG}(n)\n  spin(n)\nend\n", nil, "long.rb", 1)

$number = 0

def generated(n)  # generated
  $number += 1  # generated
  name = "made_#{$number % 100}"  # generated
  eval("def #{name}(n)\n  spin(n)\nend\n", nil, name + ".rb", 1)  # generated > made
  send(name, n)  # generated > made
end  # generated

def big(n)  # big
  t = 0  # big
  # Of_code_with_many_instructions,_the_table_of_lines_has_another_form.
  t += 1; t += 2; t += 3; t += 4; t += 5; t += 6; t += 7; t += 8; t += 9; t += 10; t += 11; t += 12; t += 13; t += 14  # big
  t += 1; t += 2; t += 3; t += 4; t += 5; t += 6; t += 7; t += 8; t += 9; t += 10; t += 11; t += 12; t += 13; t += 14  # big
  t += 1; t += 2; t += 3; t += 4; t += 5; t += 6; t += 7; t += 8; t += 9; t += 10; t += 11; t += 12; t += 13; t += 14  # big
  t += 1; t += 2; t += 3; t += 4; t += 5; t += 6; t += 7; t += 8; t += 9; t += 10; t += 11; t += 12; t += 13; t += 14  # big
  t += 1; t += 2; t += 3; t += 4; t += 5; t += 6; t += 7; t += 8; t += 9; t += 10; t += 11; t += 12; t += 13; t += 14  # big
  t += 1; t += 2; t += 3; t += 4; t += 5; t += 6; t += 7; t += 8; t += 9; t += 10; t += 11; t += 12; t += 13; t += 14  # big
  spin(n)  # big > spin
  t += 1; t += 2; t += 3; t += 4; t += 5; t += 6; t += 7; t += 8; t += 9; t += 10; t += 11; t += 12; t += 13; t += 14  # big
  spin(n)  # big > spin
end  # big

def cpu_time  # cpu_time
  Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)  # cpu_time
end  # cpu_time

def main(seconds)  # main
  finish = cpu_time + seconds  # main > cpu_time
  g = Größe.new  # main
  while cpu_time < finish  # main > cpu_time
    deep(20, 500)  # main > deep
    g.berechne_größe_数(500)  # main > berechne_größe_数
    g.defined(500)  # main > block_in_<class:Größe>
    g.nothing(500)  # main > method_missing
    values(20) do |x|  # main > values
      x + 1  # block_in_main
    end  # main
    each_value(20)  # main > each_value
    fibers(20)  # main > fibers
    sorted(30)  # main > sorted
    nested(500)  # main > nested
    rescued(300)  # main > rescued
    send(LONG, 500)  # main > long
    generated(500)  # main > generated
    big(300)  # main > big
  end  # main
end  # main

def thread(seconds)  # thread
  finish = cpu_time + seconds  # thread > cpu_time
  while cpu_time < finish  # thread > cpu_time
    i = 0  # thread
    while i < 200  # thread
      deep(3, 500)  # thread > deep
      i += 1  # thread
    end  # thread
    sleep 0.01  # thread
  end  # thread
end  # thread

seconds = ARGV[0].to_f  # <main>
2.times do  # <main>
  Thread.new do  # block_in_<main>
    thread(seconds)  # block_(2_levels)_in_<main> > thread
  end  # block_in_<main>
end  # <main>
main(seconds)  # <main> > main
