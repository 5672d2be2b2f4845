// Goroutines and channels of Go. A contender of bench/README.md.
//
// build: GO111MODULE=off go build -o build/peers/go bench/peers/go/main.go
// run:   build/peers/go [WORK COUNT N]
//
// One thread runs all goroutines (GOMAXPROCS=1), as a weft thread runs its fibers. Workloads with
// two threads use two. The figures include the time of the garbage collector.
package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const (
	warmUps         = 1000
	mailboxRoom     = 64
	flowRoom        = 1024
	bufferBytes     = 4096
	clockProcessCPU = 2
)

type work struct {
	name    string
	threads int
	run     func(count, n int)
}

var works = []work{
	{"snooze", 1, snooze},
	{"spin", 1, inCPU(spin)},
	{"rendezvous", 1, inCPU(rendezvous)},
	{"buffered", 1, inCPU(buffered)},
	{"select", 1, inCPU(selectOf2)},
	{"mutex", 1, inCPU(mutex)},
	{"condition", 1, inCPU(condition)},
	{"mailbox", 1, inCPU(mailbox)},
	{"cords", 2, inReal(cords)},
	{"flow", 2, inReal(flow)},
	{"timeout", 1, inCPU(timeout)},
	{"parked", 1, parked},
	{"sleepers", 1, sleepers},
	{"echo", 1, echo},
}

func cpuNs() float64 {
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockProcessCPU, uintptr(unsafe.Pointer(&t)), 0)
	return float64(t.Sec)*1e9 + float64(t.Nsec)
}

var start = time.Now()

func realNs() float64 {
	return float64(time.Since(start))
}

func require(isTrue bool, what string) {
	if !isTrue {
		fmt.Fprintln(os.Stderr, "go:", what)
		os.Exit(1)
	}
}

// Return a workload that prints the time per operation, after a warm-up. do returns the number of
// its operations.
func measure(now func() float64, do func(count, n int) int) func(count, n int) {
	return func(count, n int) {
		warm := warmUps
		if n < warm {
			warm = n
		}
		do(count, warm)
		began := now()
		done := do(count, n)
		fmt.Printf("%.7g\n", (now()-began)/float64(done))
	}
}

func inCPU(do func(count, n int) int) func(count, n int)  { return measure(cpuNs, do) }
func inReal(do func(count, n int) int) func(count, n int) { return measure(realNs, do) }

func atLeast1(n int) int {
	if n < 1 {
		return 1
	}
	return n
}

// One goroutine measures. Between two of its yields, each other goroutine yields once.
func snooze(count, n int) {
	laps := atLeast1(n / count)
	warm := 1 + warmUps/count
	var all sync.WaitGroup
	all.Add(count)
	for i := 1; i < count; i++ {
		go func() {
			for j := 0; j < warm+laps; j++ {
				runtime.Gosched()
			}
			all.Done()
		}()
	}
	var took float64
	go func() {
		for j := 0; j < warm; j++ {
			runtime.Gosched()
		}
		began := cpuNs()
		for j := 0; j < laps; j++ {
			runtime.Gosched()
		}
		took = cpuNs() - began
		all.Done()
	}()
	all.Wait()
	fmt.Printf("%.7g\n", took/float64(laps*count))
}

// A channel is slightly cheaper than a sync.WaitGroup, and as common.
func spin(_, n int) int {
	done := make(chan struct{})
	for i := 0; i < n; i++ {
		go func() { done <- struct{}{} }()
		<-done
	}
	return n
}

// Run n round trips over channels of a capacity.
func roundTrips(room, n int) int {
	there, back := make(chan int, room), make(chan int, room)
	go func() {
		for i := 0; i < n; i++ {
			back <- <-there
		}
	}()
	got := 0
	for i := 1; i <= n; i++ {
		there <- i
		got = <-back
	}
	require(got == n, "the last reply is wrong")
	return n
}

func rendezvous(_, n int) int { return roundTrips(0, n) }

// The mailbox of a goroutine is a channel with a buffer.
func mailbox(_, n int) int { return roundTrips(mailboxRoom, n) }

func stream(room, n int) int {
	there, done := make(chan int, room), make(chan int)
	go func() {
		sum := 0
		for i := 0; i < n; i++ {
			sum += <-there
		}
		done <- sum
	}()
	for i := 1; i <= n; i++ {
		there <- i
	}
	require(<-done == n*(n+1)/2, "messages are missing")
	return n
}

func buffered(count, n int) int { return stream(count, n) }

func flow(_, n int) int { return stream(flowRoom, n) }

func selectOf2(count, n int) int {
	require(count == 2, "select: COUNT is not 2")
	a, b := make(chan int), make(chan int)
	go func() {
		for i := 0; i < n; i++ {
			if i%2 == 0 {
				a <- 1
			} else {
				b <- 1
			}
		}
	}()
	sum := 0
	for i := 0; i < n; i++ {
		select {
		case v := <-a:
			sum += v
		case v := <-b:
			sum += v
		}
	}
	require(sum == n, "messages are missing")
	return n
}

// Unlock does not hand over the mutex. A running goroutine may lock it again before a waiter, until
// the waiter has waited for 1 ms.
func mutex(count, n int) int {
	var lock sync.Mutex
	var all sync.WaitGroup
	each, done := atLeast1(n/count), 0
	all.Add(count)
	for i := 0; i < count; i++ {
		go func() {
			for j := 0; j < each; j++ {
				lock.Lock()
				runtime.Gosched()
				done++
				lock.Unlock()
			}
			all.Done()
		}()
	}
	all.Wait()
	require(done == each*count, "mutex: operations are missing")
	return done
}

func condition(_, n int) int {
	var lock sync.Mutex
	cond := sync.NewCond(&lock)
	whose := 0
	takeTurns := func(mine int) {
		lock.Lock()
		for i := 0; i < n; i++ {
			for whose != mine {
				cond.Wait()
			}
			whose = 1 - mine
			cond.Signal()
		}
		lock.Unlock()
	}
	done := make(chan struct{})
	go func() {
		takeTurns(1)
		done <- struct{}{}
	}()
	takeTurns(0)
	<-done
	return n
}

// The runtime would run both goroutines in one thread, as in mailbox. LockOSThread binds one of
// them to its thread. Programs do so for libraries that require a fixed thread.
func cords(_, n int) int {
	there, back := make(chan int, mailboxRoom), make(chan int, mailboxRoom)
	go func() {
		runtime.LockOSThread()
		for i := 0; i < n; i++ {
			back <- <-there
		}
	}()
	for i := 1; i <= n; i++ {
		there <- i
		require(<-back == i, "a reply is wrong")
	}
	return n
}

// Reset one timer, as the net package does for deadlines. time.NewTimer takes 6 times as long, and
// context.WithTimeout 10 times.
func timeout(_, n int) int {
	timer := time.NewTimer(time.Minute)
	for i := 0; i < n; i++ {
		timer.Reset(time.Minute)
		timer.Stop()
	}
	return n
}

func statusBytes(key string) float64 {
	text, err := os.ReadFile("/proc/self/status")
	require(err == nil, "cannot read /proc/self/status")
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, key) {
			kib, _ := strconv.ParseFloat(strings.Fields(line)[1], 64)
			return kib * 1024
		}
	}
	require(false, "/proc/self/status has no "+key)
	return 0
}

func parked(count, _ int) {
	never, waiting := make(chan int), 0
	resident, tables := statusBytes("VmRSS:"), statusBytes("VmPTE:")
	for i := 0; i < count; i++ {
		go func() {
			waiting++
			<-never
		}()
	}
	for waiting < count {
		runtime.Gosched()
	}
	each := float64(count)
	resident, tables = statusBytes("VmRSS:")-resident, statusBytes("VmPTE:")-tables
	fmt.Printf("%.7g %.7g\n", resident/each, tables/each)
}

func sleepers(count, _ int) {
	var all sync.WaitGroup
	began := cpuNs()
	all.Add(count)
	for i := 0; i < count; i++ {
		us := 500000 + uint32(i)*2654435761%1000000
		go func() {
			time.Sleep(time.Duration(us) * time.Microsecond)
			all.Done()
		}()
	}
	all.Wait()
	fmt.Printf("%.7g\n", (cpuNs()-began)/1e6)
}

// The net package sets TCP_NODELAY. Its backlog is net.core.somaxconn: 4,096.
func echo(port, _ int) {
	listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	require(err == nil, fmt.Sprint(err))
	for {
		conn, err := listener.Accept()
		if err != nil {
			continue
		}
		go serve(conn)
	}
}

func serve(conn net.Conn) {
	defer conn.Close()
	buffer := make([]byte, bufferBytes)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		if _, err := conn.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func main() {
	if len(os.Args) == 1 {
		for _, w := range works {
			fmt.Println(w.name)
		}
		return
	}
	for _, w := range works {
		if len(os.Args) == 4 && w.name == os.Args[1] {
			count, _ := strconv.Atoi(os.Args[2])
			n, _ := strconv.Atoi(os.Args[3])
			runtime.GOMAXPROCS(w.threads)
			w.run(count, n)
			return
		}
	}
	fmt.Fprintln(os.Stderr, "usage: go [WORK COUNT N]")
	os.Exit(2)
}
