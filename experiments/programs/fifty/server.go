// Go: net/http, net/http with TLS, and lines; port, kind, then NAME=NUMBER.
package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

var options = map[string]int{}
var count atomic.Int64
var held []byte
var sink atomic.Uint64

// Reports whether the reply is a failure.
func serve() bool {
	number := int(count.Add(1))
	if number == options["crash"] {
		fmt.Fprintln(os.Stderr, "panic: out of cheese")
		os.Exit(3)
	}
	if options["hang"] > 0 && number >= options["hang"] {
		select {}
	}
	sum := uint64(number)
	for unit := 0; unit < options["work"]*300; unit++ {
		sum = sum*31 ^ uint64(unit)
	}
	sink.Store(sum)
	time.Sleep(time.Duration(options["sleep"]) * time.Millisecond)
	return options["fail"] > 0 && number%100 < options["fail"]
}

func main() {
	for _, word := range os.Args[3:] {
		name, value, _ := strings.Cut(word, "=")
		options[name], _ = strconv.Atoi(value)
	}
	held = make([]byte, options["memory"]<<20)
	for at := 0; at < len(held); at += 4096 {
		held[at] = 1
	}
	address := "127.0.0.1:" + os.Args[1]
	if os.Args[2] == "line" {
		listener, _ := net.Listen("tcp", address)
		for {
			client, err := listener.Accept()
			if err != nil {
				panic(err)
			}
			go func() {
				lines := bufio.NewReader(client)
				for {
					if _, err := lines.ReadString('\n'); err != nil {
						return
					}
					reply := "pong\n"
					if serve() {
						reply = "error\n"
					}
					client.Write([]byte(reply))
				}
			}()
		}
	}
	http.HandleFunc("/", func(reply http.ResponseWriter, request *http.Request) {
		if serve() {
			http.Error(reply, "broken", 500)
			return
		}
		fmt.Fprint(reply, "hello")
	})
	if os.Args[2] == "tls" {
		panic(http.ListenAndServeTLS(address, "cert.pem", "key.pem", nil))
	}
	panic(http.ListenAndServe(address, nil))
}
