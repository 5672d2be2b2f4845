// What bench/messages.c, sync.c and select.c measure, in Go: the same names, one line each.
//
// GOMAXPROCS is 1, so that one thread runs all goroutines, as a weft thread runs its fibers. The
// goroutines are not locked to it (runtime.LockOSThread): that would make each of their switches
// one between threads of the kernel. Time is that of the process, the garbage collector's too.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const (
	rounds = 21
	number = 10000
	room   = 128
	crowd  = 4

	clockProcessCPU = 2
)

func now() float64 {
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockProcessCPU, uintptr(unsafe.Pointer(&t)), 0)
	return float64(t.Sec)*float64(time.Second) + float64(t.Nsec)
}

func require(isTrue bool, what string) {
	if !isTrue {
		fmt.Fprintln(os.Stderr, "go:", what)
		os.Exit(1)
	}
}

func chanRoundTrip(n int) float64 {
	there, back := make(chan int), make(chan int)
	go func() {
		for i := 0; i < n; i++ {
			back <- <-there
		}
	}()
	got := 0
	began := now()
	for i := 1; i <= n; i++ {
		there <- i
		got = <-back
	}
	took := now() - began
	require(got == n, "the last answer is wrong")
	return took
}

func chanStream(n int) float64 {
	there, done := make(chan int, room), make(chan int)
	go func() {
		sum := 0
		for i := 0; i < n; i++ {
			sum += <-there
		}
		done <- sum
	}()
	began := now()
	for i := 1; i <= n; i++ {
		there <- i
	}
	sum := <-done
	took := now() - began
	require(sum == n*(n+1)/2, "messages are missing")
	return took
}

func mutexFree(n int) float64 {
	var mutex sync.Mutex
	began := now()
	for i := 0; i < n; i++ {
		mutex.Lock()
		mutex.Unlock()
	}
	return now() - began
}

// Not always handed on: whoever runs may take it again before one who waits, until that one has
// waited for a millisecond.
func mutexContended(n int) float64 {
	var mutex sync.Mutex
	var all sync.WaitGroup
	done := 0
	all.Add(crowd)
	began := now()
	for i := 0; i < crowd; i++ {
		go func() {
			for j := 0; j < n/crowd; j++ {
				mutex.Lock()
				runtime.Gosched()
				done++
				mutex.Unlock()
			}
			all.Done()
		}()
	}
	all.Wait()
	took := now() - began
	require(done == n/crowd*crowd, "not all was done")
	return took
}

func condRoundTrip(n int) float64 {
	var mutex sync.Mutex
	cond := sync.NewCond(&mutex)
	whose := 0
	takeTurns := func(mine int) {
		mutex.Lock()
		for i := 0; i < n; i++ {
			for whose != mine {
				cond.Wait()
			}
			whose = 1 - mine
			cond.Signal()
		}
		mutex.Unlock()
	}
	done := make(chan int)
	go func() {
		takeTurns(1)
		done <- 0
	}()
	began := now()
	takeTurns(0)
	<-done
	return now() - began
}

func receiveOf2(c []chan int) int {
	select {
	case v := <-c[0]:
		return v
	case v := <-c[1]:
		return v
	}
}

func receiveOf10(c []chan int) int {
	select {
	case v := <-c[0]:
		return v
	case v := <-c[1]:
		return v
	case v := <-c[2]:
		return v
	case v := <-c[3]:
		return v
	case v := <-c[4]:
		return v
	case v := <-c[5]:
		return v
	case v := <-c[6]:
		return v
	case v := <-c[7]:
		return v
	case v := <-c[8]:
		return v
	case v := <-c[9]:
		return v
	}
}

func receiveN(n int, c []chan int, receiveAny func([]chan int) int) float64 {
	sum := 0
	began := now()
	for i := 0; i < n; i++ {
		sum += receiveAny(c)
	}
	took := now() - began
	require(sum == n, "messages are missing")
	return took
}

func channels(count int) []chan int {
	c := make([]chan int, count)
	for i := range c {
		c[i] = make(chan int)
	}
	return c
}

func selectWaiting(count int, receiveAny func([]chan int) int) func(int) float64 {
	return func(n int) float64 {
		c := channels(count)
		go func() {
			at := 0
			for i := 0; i < n; i++ {
				c[at] <- 1
				if at++; at == count {
					at = 0
				}
			}
		}()
		return receiveN(n, c, receiveAny)
	}
}

func selectReady(count int, receiveAny func([]chan int) int) func(int) float64 {
	return func(n int) float64 {
		c := channels(count)
		c[count-1] = make(chan int, n)
		for i := 0; i < n; i++ {
			c[count-1] <- 1
		}
		return receiveN(n, c, receiveAny)
	}
}

// Print the median of the rounds, after one to warm up.
func measure(what string, run func(int) float64) {
	took := make([]float64, rounds)
	run(number)
	for i := range took {
		took[i] = run(number) / number
	}
	sort.Float64s(took)
	fmt.Printf("%s %.2f\n", what, took[rounds/2])
}

func main() {
	runtime.GOMAXPROCS(1)
	measure("channel round trip", chanRoundTrip)
	measure("channel of 128, a message", chanStream)
	measure("mutex, free", mutexFree)
	measure("mutex, handed on among 4", mutexContended)
	measure("condition round trip", condRoundTrip)
	measure("select of 2, waiting", selectWaiting(2, receiveOf2))
	measure("select of 10, waiting", selectWaiting(10, receiveOf10))
	measure("select of 2, ready", selectReady(2, receiveOf2))
	measure("select of 10, ready", selectReady(10, receiveOf10))
}
