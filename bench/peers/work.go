package main

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// workCmd is a contestant's process: it gives every line of standard input to a peer, and prints how long nearlyAll of
// them took, and the counts of answers.
type workCmd struct {
	peer    string
	workers int
	each    bool // print the answer to each address instead, as CSV
}

var answerNames = [answers]string{Unknown: "unknown", Good: "good", Bad: "bad"}

func (c workCmd) run(in io.Reader, out io.Writer) error {
	p, err := findPeer(c.peer)
	if err != nil {
		return err
	}
	verify, err := p.New()
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	addresses := strings.Split(strings.TrimSpace(string(text)), "\n")
	var (
		counts     [answers]atomic.Int64
		next, done atomic.Int64
		nearly     atomic.Int64 // nanoseconds
		workers    sync.WaitGroup
	)
	each := make([]Answer, len(addresses))
	most := int64(max(1, len(addresses)*nearlyAll/100))
	began := time.Now()
	for range c.workers {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(addresses)); i = next.Add(1) - 1 {
				each[i] = verify(addresses[i])
				counts[each[i]].Add(1)
				if done.Add(1) == most {
					nearly.Store(int64(time.Since(began)))
				}
			}
		})
	}
	workers.Wait()
	if c.each {
		return writeEach(out, addresses, each)
	}
	_, err = fmt.Fprintln(out, nearly.Load(), most, counts[Good].Load(), counts[Bad].Load(), counts[Unknown].Load())
	return err
}

func writeEach(out io.Writer, addresses []string, each []Answer) error {
	w := csv.NewWriter(out)
	err := w.Write([]string{"email", "status"})
	for i, address := range addresses {
		err = errors.Join(err, w.Write([]string{address, answerNames[each[i]]}))
	}
	w.Flush()
	return errors.Join(err, w.Error())
}

// nearlyAll is the percentage of its addresses over which a peer's rate is measured: the wait at the end for hosts that
// never answer does not count.
const nearlyAll = 99

// readAddresses returns the distinct cells of a list's e-mail column in order, and the number of rows.
func readAddresses(path string) (addresses []string, rows int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	in := csv.NewReader(bufio.NewReader(f))
	in.ReuseRecord = true
	header, err := in.Read()
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	column := slices.Index(header, "email")
	if column < 0 {
		return nil, 0, fmt.Errorf("%s: no column email", path)
	}
	seen := map[string]bool{}
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return addresses, rows, nil
		}
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", path, err)
		}
		rows++
		cell := strings.TrimSpace(row[column])
		if cell == "" || strings.ContainsAny(cell, "\r\n") || seen[cell] {
			continue
		}
		cell = strings.Clone(cell)
		seen[cell] = true
		addresses = append(addresses, cell)
	}
}
