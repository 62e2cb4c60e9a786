// franz-go's kadm: DescribeProducers of every partition of the topics named after the address, once a line of standard
// input.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]))
	check(err)
	defer client.Close()
	admin := kadm.NewClient(client)
	topics, err := admin.ListTopics(context.Background(), os.Args[2:]...)
	check(err)
	partitions := topics.TopicsSet()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		began := time.Now()
		described, err := admin.DescribeProducers(context.Background(), partitions)
		wall := time.Since(began)
		check(err)
		entries := 0
		described.EachPartition(func(partition kadm.DescribedProducersPartition) {
			check(partition.Err)
			entries += len(partition.ActiveProducers)
		})
		fmt.Printf("{\"wall_ms\": %.3f, \"entries\": %d}\n", float64(wall.Microseconds())/1000, entries)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
