# frozen_string_literal: true

require "helper"
require "io/nonblock"
require "io/wait"
require "tempfile"

class TestIO < SchedulerTest
  def test_two_fibers_wait_for_one_socket
    left, right = UNIXSocket.pair
    woken = 0
    schedule do
      2.times { Fiber.schedule { left.wait_readable && woken += 1 } }
      Fiber.schedule { right.write("x") }
    end
    assert_equal 2, woken
  end

  def test_two_fibers_read_from_one_socket
    left, right = UNIXSocket.pair
    lines = []
    schedule do
      2.times { Fiber.schedule { lines << left.readpartial(1) } }
      Fiber.schedule { right.write("a") && sleep(0) && right.write("b") }
    end
    assert_equal %w[a b], lines.sort
  end

  def test_a_reader_and_a_writer_wait_for_one_socket
    left, right = UNIXSocket.pair
    data = "x" * 1_000_000
    received = nil
    schedule do
      Fiber.schedule { assert_equal "done", left.readpartial(4) }
      Fiber.schedule { left.write(data) && left.close_write }
      Fiber.schedule { (received = right.read) && right.write("done") }
    end
    assert_equal data.size, received.size
  end

  def test_two_thousand_pipes
    pipes = Array.new(2000) { IO.pipe }
    bytes = +""
    schedule do
      pipes.each { |reader, _| Fiber.schedule { bytes << reader.read(1) } }
      Fiber.schedule { pipes.each { |_, writer| writer.write("x") } }
    end
    assert_equal 2000, bytes.size
  ensure
    pipes&.flatten&.each(&:close)
  end

  def test_a_large_write_to_a_pipe
    reader, writer = IO.pipe
    data = Random.bytes(5_000_000)
    received = nil
    schedule do
      Fiber.schedule { writer.write(data) && writer.close }
      Fiber.schedule { received = reader.read.b }
    end
    assert received == data
  end

  def test_lines_and_buffers
    reader, writer = IO.pipe
    in_fiber do
      Fiber.schedule do
        writer.puts("one", "", "two")
        writer.puts
        writer.print("end")
        writer.close
      end
      assert_equal ["one\n", "\n", "two\n", "\n", "end"], reader.each_line.to_a
    end
  end

  # The reader finds a full buffer each time. It must not run until the input ends.
  def test_a_reader_with_endless_input_does_not_starve_other_fibers
    stop, stopper = IO.pipe
    is_stopped = false
    in_fiber do
      Fiber.schedule { is_stopped = stop.gets }
      Fiber.schedule do
        zeros = File.open("/dev/zero")
        left, right = UNIXSocket.pair
        stopper.puts
        until is_stopped
          right.write(zeros.read(10)) && right.puts
          left.gets
        end
      end
    end
    assert is_stopped
  end

  def test_read_nonblock_does_not_wait
    reader, writer = IO.pipe
    in_fiber do
      assert_equal :wait_readable, reader.read_nonblock(1, exception: false)
      writer << "ab"
      assert_equal "a", reader.read_nonblock(1)
      writer << "c"
      assert_equal "bc", reader.read_nonblock(10)
      assert_raises(IO::EAGAINWaitReadable) { reader.read_nonblock(1) }
    end
  end

  def test_sockets_and_pipes_in_blocking_mode
    [UNIXSocket.pair, IO.pipe].each do |reader, writer|
      reader.nonblock = writer.nonblock = false
      in_fiber do
        Fiber.schedule { sleep(0) && writer.write("x" * 300_000) && writer.close }
        assert_equal 300_000, reader.read.size
      end
    end
  end

  def test_a_waiting_read_of_a_pipe_in_blocking_mode_can_be_interrupted
    reader, writer = IO.pipe
    reader.nonblock = false
    in_fiber do
      assert_raises(Timeout::Error) { Timeout.timeout(0.01) { reader.readpartial(1) } }
      writer << "x"
      assert_equal "x", reader.readpartial(1)
    end
  end

  def test_regular_files
    Tempfile.create("weft") do |file|
      in_fiber do
        file.write("line\n" * 100_000)
        file.rewind
        assert_equal 500_000, file.read.size
        file.seek(5)
        assert_equal "line\n", file.gets
        assert_equal "ine", file.pread(3, 1)
        file.pwrite("LINE", 0)
        assert_equal "LINE\n", File.open(file.path, &:gets)
        assert_equal 100_000, File.readlines(file.path).size
      end
    end
  end

  def test_the_end_of_the_input
    reader, writer = IO.pipe
    in_fiber do
      Fiber.schedule { sleep(0) && writer.close }
      assert_nil reader.gets
      assert_equal "", reader.read
    end
  end

  def test_a_write_to_a_closed_peer_raises
    left, right = UNIXSocket.pair
    right.close
    in_fiber { assert_raises(Errno::EPIPE) { left.write("x") } }
  end

  def test_a_hang_up_wakes_reader_and_writer
    left, right = UNIXSocket.pair
    left.write_nonblock("x" * 1_000_000)
    events = []
    schedule do
      Fiber.schedule { left.wait_readable && events << :reader }
      Fiber.schedule { left.wait_writable && events << :writer }
      Fiber.schedule { right.close }
    end
    assert_equal %i[reader writer], events.sort
  end

  # The kernel gives the lowest free number: each round reuses the numbers of the round before.
  def test_descriptor_numbers_are_reused
    numbers = []
    in_fiber do
      100.times do |i|
        left, right = UNIXSocket.pair
        numbers << left.fileno
        Fiber.schedule { right.write(i.to_s) }
        assert_nil left.wait_writable && left.wait_priority(0)
        assert_equal i.to_s, left.readpartial(10)
        [left, right].each(&:close)
      end
    end
    assert_operator numbers.uniq.size, :<, 100
  end

  def test_an_interrupted_wait_does_not_affect_the_next_file_with_the_number
    in_fiber do
      20.times do
        reader, writer = IO.pipe
        assert_raises(Timeout::Error) { Timeout.timeout(0.001) { reader.read(1) } }
        [reader, writer].each(&:close)
        reader, writer = IO.pipe
        Fiber.schedule { writer.write("y") }
        assert_equal "y", reader.read(1)
        [reader, writer].each(&:close)
      end
    end
  end

  def test_no_descriptor_leaks
    output, = run_ruby(<<~RUBY)
      require "weft"
      count = -> { [GC.start] && Dir.children("/proc/self/fd").size }
      work = ->(*) { Thread.new { Weft.run { IO.pipe.each(&:close) && system("true") && sleep(0) } }.join }
      2.times(&work)
      before = count.call
      5.times(&work)
      p count.call - before
    RUBY
    assert_equal "0\n", output
  end

  def test_standard_output_of_a_child
    in_fiber do
      output = IO.popen(["cat"], "r+") { |io| io.write("text") && io.close_write || io.read }
      assert_equal "text", output
    end
  end

  def test_select_waits_only_in_its_fiber
    skip "IO.select calls the scheduler since Ruby 3.2" if RUBY_VERSION < "3.2"
    reader, writer = IO.pipe
    in_fiber do
      assert_nil IO.select([reader], nil, nil, 0.001)
      Fiber.schedule { sleep(0) && writer.write("line\nrest") }
      assert_equal [[reader], [], []], IO.select([reader])
      assert_equal "line\n", reader.gets
      assert_equal [[reader], [writer], []], IO.select([reader], [writer])
    end
  end

  def test_close_wakes_fibers_that_wait
    skip "IO#close wakes fibers since Ruby 4.0" if RUBY_VERSION < "4.0"
    [IO.pipe, UNIXSocket.pair].each do |reader, _|
      in_fiber do
        Fiber.schedule { sleep(0) && reader.close }
        assert_raises(IOError) { reader.read(1) }
      end
    end
  end

  def test_buffer_transfers_of_a_minimum_length
    skip "IO::Buffer#read has an offset since Ruby 3.2" if RUBY_VERSION < "3.2"
    reader, writer = IO.pipe
    in_fiber do
      Fiber.schedule { "abcd".each_char { |char| writer.write(char) && sleep(0) } }
      buffer = IO::Buffer.new(8)
      assert_equal 4, buffer.read(reader, 4, 2)
      assert_equal "abcd", buffer.get_string(2, 4)
    end
  end
end
