// The stock market in Go: a goroutine for each connection, a lock around the book.
//
//	go run market.go PORT BOOK
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

type stock struct{ id, left, price int64 }

type market struct {
	lock   sync.Mutex
	stocks []stock
	place  map[int64]int
}

// open reads a book: one line for each stock, its id, how many are left, and the price.
func open(path string) (*market, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	m := &market{place: map[int64]int{}}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var s stock
		if _, err := fmt.Sscan(lines.Text(), &s.id, &s.left, &s.price); err == nil {
			m.place[s.id] = len(m.stocks)
			m.stocks = append(m.stocks, s)
		}
	}
	return m, lines.Err()
}

// answer appends the reply to one request; more is false after the last one.
func (m *market) answer(request string, out []byte) (reply []byte, more bool) {
	words := strings.Fields(request)
	if len(words) == 0 {
		return append(out, '\n'), true
	}
	switch words[0] {
	case "show":
		m.lock.Lock()
		for _, s := range m.stocks {
			out = strconv.AppendInt(out, s.id, 10)
			out = strconv.AppendInt(append(out, ' '), s.left, 10)
			out = strconv.AppendInt(append(out, ' '), s.price, 10)
			out = append(out, '\n')
		}
		m.lock.Unlock()
		return append(out, '\n'), true
	case "buy", "sell":
		return m.trade(words, out), true
	case "exit":
		return out, false
	}
	return append(out, "error: expected show, buy, sell or exit\n"...), true
}

func (m *market) trade(words []string, out []byte) []byte {
	if len(words) != 3 {
		return append(out, "error: expected an id and an amount\n"...)
	}
	id, wrong := strconv.ParseInt(words[1], 10, 32)
	amount, bad := strconv.ParseInt(words[2], 10, 32)
	at, known := m.place[id]
	if wrong != nil || bad != nil || amount < 1 || !known {
		return append(out, "error: expected the id of a stock and an amount\n"...)
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	s := &m.stocks[at]
	if words[0] == "sell" {
		s.left += amount
		return append(out, "[sell] success\n"...)
	}
	if s.left < amount {
		return append(out, "Not enough left stocks\n"...)
	}
	s.left -= amount
	return append(out, "[buy] success\n"...)
}

// serve answers one client. Replies to requests that came together leave together.
func (m *market) serve(peer net.Conn) {
	defer peer.Close()
	in := bufio.NewReader(peer)
	var out []byte
	for {
		request, err := in.ReadString('\n')
		if err != nil {
			return
		}
		var more bool
		out, more = m.answer(request, out)
		if in.Buffered() == 0 || !more || len(out) > 64<<10 {
			if _, err := peer.Write(out); err != nil || !more {
				return
			}
			out = out[:0]
		}
	}
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "market: expected PORT BOOK")
		os.Exit(2)
	}
	m, err := open(os.Args[2])
	if err == nil {
		var door net.Listener
		if door, err = net.Listen("tcp", "127.0.0.1:"+os.Args[1]); err == nil {
			go func() {
				for {
					peer, err := door.Accept()
					if err != nil {
						return
					}
					go m.serve(peer)
				}
			}()
			stop := make(chan os.Signal, 1)
			signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
			<-stop
			return
		}
	}
	fmt.Fprintln(os.Stderr, "market:", err)
	os.Exit(1)
}
