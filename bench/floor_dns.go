package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

// inFlight is how many questions of the bare DNS client, and of the resolver that is held against it, are unanswered at most: few
// enough for a socket's usual buffer, in which a small datagram takes most of a KiB.
const inFlight = 128

// dnsFloor asks for the MX records of every name over one socket, with inFlight questions under way, and counts answers.
func dnsFloor(ctx context.Context, dial Dial, server netip.AddrPort, names int) (count floorCount, err error) {
	conn, err := dial(ctx, "udp", server.String())
	if err != nil {
		return count, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	began, before := time.Now(), ownCPU()
	places := make(chan struct{}, inFlight)
	heard := make(chan int, 1)
	deaf := make(chan struct{}) // closed when nothing more is heard
	go func() {
		defer close(deaf)
		heard <- hear(conn, places, names)
	}()
	err = askNames(conn, places, deaf, names)
	if err != nil {
		conn.Close() // nothing more will be heard
	}
	count.Recipients = <-heard
	count.Lost = names - count.Recipients
	count.Elapsed, count.CPU = time.Since(began), ownCPU()-before
	count.Connections = 1
	if count.Lost > 0 {
		err = errors.Join(err, fmt.Errorf("the bare DNS client lost %d answers", count.Lost))
	}
	return count, errors.Join(err, ctx.Err())
}

// askNames sends a question for every name, each when there is a place.
func askNames(conn net.Conn, places chan<- struct{}, deaf <-chan struct{}, names int) error {
	var b []byte
	for i := range names {
		select {
		case places <- struct{}{}:
		case <-deaf:
			return errors.New("the name server has stopped answering")
		}
		b = appendQuestion(b[:0], uint16(i), nameOf(i))
		if _, err := conn.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// appendQuestion appends a question for MX records, recursion desired.
func appendQuestion(b []byte, id uint16, name string) []byte {
	b = binary.BigEndian.AppendUint16(b, id)
	b = append(b, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	for label := range strings.SplitSeq(name, ".") {
		b = append(append(b, byte(len(label))), label...)
	}
	return append(b, 0, 0, typeMX, 0, 1)
}

// lossTime is how long an answer may take before it counts as lost.
const lossTime = 2 * time.Second

// hear reads answers until all have come, one is lost, or the connection is closed.
func hear(conn net.Conn, places <-chan struct{}, names int) (heard int) {
	b := make([]byte, 4096)
	for heard < names {
		if heard%inFlight == 0 && conn.SetReadDeadline(time.Now().Add(lossTime)) != nil {
			return heard
		}
		if _, err := conn.Read(b); err != nil {
			return heard
		}
		heard++
		<-places
	}
	return heard
}
