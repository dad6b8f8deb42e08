// SPDX-License-Identifier: LGPL-2.1-or-later
// A goroutine of its own: work SECONDS
package main

import (
	"os"
	"strconv"
	"time"
)

var sum uint64

//go:noinline
func leaf(rounds uint64) {
	for i := uint64(0); i < rounds; i++ {
		sum += i * i
	}
}

//go:noinline
func middle(end time.Time) {
	for time.Now().Before(end) {
		leaf(100000)
	}
	sum++
}

//go:noinline
func outer(end time.Time, done chan bool) {
	middle(end)
	done <- true
}

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	done := make(chan bool)
	go outer(time.Now().Add(time.Duration(seconds*1e9)), done)
	<-done
}
