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
)

// workCmd is a contestant's process: it gives every line of standard input to a peer, and prints the answers' counts.
type workCmd struct {
	peer    string
	workers int
}

func (c workCmd) run(in io.Reader, out io.Writer) error {
	p, err := findPeer(c.peer)
	if err != nil {
		return err
	}
	verify, err := p.New()
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	var counts [answers]atomic.Int64
	addresses := make(chan string, 1024)
	var workers sync.WaitGroup
	for range c.workers {
		workers.Go(func() {
			for a := range addresses {
				counts[verify(a)].Add(1)
			}
		})
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		addresses <- lines.Text()
	}
	close(addresses)
	workers.Wait()
	fmt.Fprintln(out, counts[Good].Load(), counts[Bad].Load(), counts[Unknown].Load())
	return lines.Err()
}

// readAddresses are the distinct cells of a list's e-mail column, in their order, and how many rows there were.
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
