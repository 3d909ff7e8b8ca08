require 'stackprof'
def inner(n) = (0...n).sum { |i| i * i % 7 }
def hot = inner(300_000)
def cold = inner(100_000)
data = StackProf.run(mode: :cpu, interval: 10_000, raw: true) { 12.times { hot; cold } }
require 'json'
File.write('cpu.json', JSON.generate(data))
File.binwrite('cpu.dump', Marshal.dump(data))
data = StackProf.run(mode: :object, interval: 100, raw: true) { 3000.times { 'x' * 5; [1] } }
File.write('object.json', JSON.generate(data))
data = StackProf.run(mode: :wall, interval: 10_000) { 8.times { hot; cold } }
File.write('flat.json', JSON.generate(data))
