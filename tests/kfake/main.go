// Runs kfake, the brokers of franz-go's own tests, on the given ports of the loopback until it is ended. With the word
// "unlisted" before them, no broker lists a transaction, without an error, as Redpanda while coordinators are elected.
package main

import (
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func main() {
	words := os.Args[1:]
	isUnlisted := words[0] == "unlisted"
	if isUnlisted {
		words = words[1:]
	}
	var ports []int
	for _, word := range words {
		port, err := strconv.Atoi(word)
		if err != nil {
			panic(err)
		}
		ports = append(ports, port)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(len(ports)), kfake.Ports(ports...))
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	if isUnlisted {
		cluster.ControlKey(int16(kmsg.ListTransactions), func(request kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			return request.ResponseKind(), nil, true
		})
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	<-ended
}
