// Go's client of NATS: all goroutines use one connection. A contender of tools/bench-hub (bench/hub/hub.h).
//
// build: GO111MODULE=off GOPATH=/usr/share/gocode go build -o build/peers/hub-go bench/hub/go/main.go
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	echoName       = "bench.echo"
	sinkName       = "bench.sink"
	floodName      = "bench.flood"
	floodStartName = "bench.start"
	queueSubject   = "weft.q.bench"
	warmUp         = 1000
	timeout        = 30 * time.Second
)

var (
	payload = []byte("0123456789abcde\x00")
	nc      *nats.Conn
	js      nats.JetStreamContext
	started = time.Now().UnixNano()
	ids     int64
)

var works = []struct {
	name string
	run  func(count, n int)
}{
	{"request", request},
	{"publish", publish},
	{"receive", receive},
	{"put", put},
	{"put-async", putAsync},
}

func require(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "hub-go:", err)
		os.Exit(1)
	}
}

func cpuNs() float64 {
	var used syscall.Rusage
	require(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return float64(used.Utime.Nano() + used.Stime.Nano())
}

// measure runs a pass to warm up, then a pass to measure.
func measure(pass func(n int), n int) {
	pass(warmUp)
	begin, cpu := time.Now(), cpuNs()
	pass(n)
	real := float64(time.Since(begin).Nanoseconds())
	fmt.Printf("%.7g %.7g\n", real/float64(n), (cpuNs()-cpu)/float64(n))
}

// runAtOnce runs a function n times, in count goroutines.
func runAtOnce(run func(), count int) func(n int) {
	return func(n int) {
		var all sync.WaitGroup
		left := int64(n)
		for i := 0; i < count; i++ {
			all.Add(1)
			go func() {
				defer all.Done()
				for atomic.AddInt64(&left, -1) >= 0 {
					run()
				}
			}()
		}
		all.Wait()
	}
}

func requestEcho() {
	_, err := nc.Request(echoName, payload, timeout)
	require(err)
}

func request(count, n int) {
	measure(runAtOnce(requestEcho, count), n)
}

func publish(count, n int) {
	measure(func(n int) {
		for i := 0; i < n; i++ {
			require(nc.Publish(sinkName, payload))
		}
		requestEcho()
	}, n)
}

func receive(count, n int) {
	var left int64
	done := make(chan bool)
	sub, err := nc.Subscribe(floodName, func(*nats.Msg) {
		if left--; left == 0 {
			done <- true
		}
	})
	require(err)
	require(sub.SetPendingLimits(-1, -1)) // discard no messages
	require(nc.Flush())
	measure(func(n int) {
		left = int64(n)
		require(nc.Publish(floodStartName, []byte(strconv.Itoa(n))))
		<-done
	}, n)
}

// newID returns an id that no other put of this server has.
func newID() nats.PubOpt {
	return nats.MsgId(fmt.Sprintf("%x-%x", started, atomic.AddInt64(&ids, 1)))
}

func putItem() {
	_, err := js.Publish(queueSubject, payload, newID())
	require(err)
}

func put(count, n int) {
	measure(runAtOnce(putItem, count), n)
}

func putAsync(count, n int) {
	measure(func(n int) {
		for i := 0; i < n; i++ {
			_, err := js.PublishAsync(queueSubject, payload, newID(), nats.StallWait(timeout))
			require(err)
		}
		<-js.PublishAsyncComplete()
	}, n)
}

func main() {
	if len(os.Args) != 4 {
		for _, work := range works {
			fmt.Println(work.name)
		}
		return
	}
	count, err := strconv.Atoi(os.Args[2])
	require(err)
	n, err := strconv.Atoi(os.Args[3])
	require(err)
	nc, err = nats.Connect(os.Getenv("WEFT_HUB_URL"))
	require(err)
	defer nc.Close()
	js, err = nc.JetStream(nats.PublishAsyncMaxPending(count), nats.MaxWait(timeout))
	require(err)
	for _, work := range works {
		if work.name == os.Args[1] {
			work.run(count, n)
		}
	}
}
