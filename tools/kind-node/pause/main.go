// The program pause holds the namespaces of a pod: it waits until it is told to
// stop, and reaps the processes that others left behind.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		for {
			// Zero: children are left, but none has ended.
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.EINTR && (err != nil || pid <= 0) {
				break
			}
		}
	}
}
