// Short texts through this client or the bare stub: `bench client|stub ADDRESS COUNT`. See run.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	isomer "isomer.dev/go"
	encoderv1 "isomer.dev/go/encoder/v1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	batchItems = 256
	inFlight   = 4
	columns    = 384
)

func texts(count int) []string {
	words := strings.Fields("gardener watered roses before breakfast train lisbon cancelled storm cello evening river kitchen paint")
	made := make([]string, count)
	for number := range made {
		var parts []string
		for _, step := range []int{1, 3, 5, 7} {
			parts = append(parts, words[number*step%len(words)])
		}
		made[number] = strings.Join(parts, " ") + " " + strconv.Itoa(number)
	}
	return made
}

// way encodes texts into one slice.
type way func(texts []string) ([]float32, error)

func client(address string) (way, error) {
	made, err := isomer.Connect(address, isomer.WithBatches(batchItems, 1<<20), isomer.WithInFlight(inFlight))
	return func(texts []string) ([]float32, error) {
		found, err := made.Encode(context.Background(), texts, isomer.EncodeOptions{Encoder: "wide"})
		if err != nil {
			return nil, err
		}
		return found.Float32s(), nil
	}, err
}

func stub(address string) (way, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	encoder := encoderv1.NewEncoderServiceClient(conn)
	return func(texts []string) ([]float32, error) {
		joined := make([]byte, 4*columns*len(texts))
		permits, errs := make(chan struct{}, inFlight), make(chan error, len(texts)/batchItems+1)
		var all sync.WaitGroup
		for start := 0; start < len(texts); start += batchItems {
			some := texts[start:min(start+batchItems, len(texts))]
			permits <- struct{}{}
			all.Add(1)
			go func() {
				defer func() { <-permits; all.Done() }()
				request := &encoderv1.EncodeRequest{EncoderId: "wide"}
				for _, text := range some {
					request.Inputs = append(request.Inputs, &encoderv1.Input{Input: &encoderv1.Input_Text{Text: text}})
				}
				answer, err := encoder.Encode(context.Background(), request)
				if err != nil {
					errs <- err
					return
				}
				copy(joined[4*columns*start:], answer.GetEmbeddings().GetData())
			}()
		}
		all.Wait()
		select {
		case err := <-errs:
			return nil, err
		default:
		}
		// A view, as the client's: the copy into one slice is in both.
		return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(joined))), len(joined)/4), nil
	}, nil
}

func used() (float64, int64) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds(), usage.Maxrss * 1024
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: bench client|stub ADDRESS COUNT")
	}
	made, err := map[string]func(string) (way, error){"client": client, "stub": stub}[os.Args[1]](os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	count, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	some := texts(count)
	if _, err := made(some[:batchItems]); err != nil {
		log.Fatal(err)
	}
	before, _ := used()
	started := time.Now()
	vectors, err := made(some)
	took := time.Since(started)
	after, peak := used()
	if err != nil || len(vectors) != count*columns {
		log.Fatalf("%d numbers: %v", len(vectors), err)
	}
	sum := 0.0
	for _, value := range vectors {
		sum += float64(value)
	}
	told, err := json.Marshal(map[string]any{"seconds": took.Seconds(), "cpu": after - before, "peak": peak, "sum": sum})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(told))
}
