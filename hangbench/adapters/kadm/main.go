// KIP-664's search with franz-go's kadm: what is open on a partition, and in no active transaction of a coordinator.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

type said struct {
	Topic      string `json:"topic"`
	Partition  int32  `json:"partition"`
	ProducerID int64  `json:"producer_id"`
	Says       string `json:"says"`
}

type place struct {
	topic      string
	partition  int32
	producerID int64
}

func main() {
	patience, err := strconv.Atoi(os.Getenv("HANGBENCH_PATIENCE_MS"))
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(patience)*time.Millisecond+10*time.Second)
	defer cancel()
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(os.Getenv("HANGBENCH_BOOTSTRAP"), ",")...),
		kgo.RetryTimeout(time.Duration(patience) * time.Millisecond),
	}
	if user := os.Getenv("HANGBENCH_USER"); user != "" {
		options = append(options, kgo.SASL(plain.Auth{User: user, Pass: os.Getenv("HANGBENCH_PASSWORD")}.AsMechanism()))
	}
	client, err := kgo.NewClient(options...)
	check(err)
	defer client.Close()
	admin := kadm.NewClient(client)

	topics, err := admin.ListTopicsWithInternal(ctx)
	check(err)
	described, err := admin.DescribeProducers(ctx, topics.TopicsSet())
	complete := err == nil // what came is in `described` all the same
	open := map[place]bool{}
	described.EachPartition(func(partition kadm.DescribedProducersPartition) {
		complete = complete && partition.Err == nil
	})
	described.EachProducer(func(producer kadm.DescribedProducer) {
		if producer.CurrentTxnStartOffset >= 0 {
			open[place{producer.Topic, producer.Partition, producer.ProducerID}] = true
		}
	})

	listed, err := admin.ListTransactions(ctx, nil, nil)
	allListed := err == nil
	owned := map[place]bool{}
	if ids := listed.TransactionalIDs(); len(ids) > 0 {
		transactions, err := admin.DescribeTransactions(ctx, ids...)
		allListed = allListed && err == nil
		transactions.Each(func(transaction kadm.DescribedTransaction) {
			if transaction.Err != nil {
				allListed = false
				return
			}
			for topic, partitions := range transaction.Topics {
				for partition := range partitions {
					owned[place{topic, partition, transaction.ProducerID}] = true
				}
			}
		})
	}

	transactions := []said{}
	for at := range open {
		says := "hanging"
		if owned[at] {
			says = "open"
		} else if !allListed {
			says = "unknown"
		}
		transactions = append(transactions, said{at.topic, at.partition, at.producerID, says})
	}
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"hangbench": 1, "complete": complete && allListed, "transactions": transactions,
	}))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
