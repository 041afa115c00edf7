# Functions that are made, run and freed: keep_N runs one at line N % 2 + 1 of made_N.rb.

def spin(n)
  t = 0
  n.times { |i| t += i * i }
  t
end

20.times do |i|
  eval "def keep_#{i}(n)
    made = eval('->(n) { spin(n) + 1 }', TOPLEVEL_BINDING, 'made_' + #{i}.to_s + '.rb', #{i % 2 + 1})
    made.call(n) + 1
  end"
end

i = 0
cpu = -> { Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) }
stop = cpu.call + ARGV[0].to_f
while cpu.call < stop
  send("keep_#{i % 20}", 200000)
  i += 1
  GC.start
end
