package main

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"probity/internal/nodeflags"
)

// flagParsers parse flags by their type, and say how to write one.
func flagParsers() []kong.Option {
	return []kong.Option{
		parserOf(netip.ParsePrefix, "invalid network %q; write CIDR, e.g. 192.0.2.0/24, or 192.0.2.7/32 for one address"),
		parserOf(time.ParseDuration, "%q is not a length of time; write for example 30s, 5m or 1h30m"),
		parserOf(parseWhole[int], wholeAdvice),
		parserOf(parseWhole[int64], wholeAdvice),
		parserOf(parseUnsigned, "%q: write a whole number from 0, of at most 19 digits"),
		parserOf(parsePort, "%q is not a port; write a number from 1 to 65535"),
		parserOf(nodeflags.ParseSessions, "%q: give a number of sessions from 1, or leave it out"),
		parserOf(parseFraction, "%q: write a number such as 10 or 0.5"),
	}
}

const wholeAdvice = "%q: write a whole number of at most 18 digits"

func parseWhole[T int | int64](text string) (T, error) {
	n, err := strconv.ParseInt(text, 0, reflect.TypeFor[T]().Bits())
	return T(n), err
}

func parseUnsigned(text string) (uint64, error) { return strconv.ParseUint(text, 0, 64) }

// parsePort parses a flag of type uint16: all of these are ports.
func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 0, 16)
	return uint16(n), err
}

func parseFraction(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if math.IsNaN(n) || math.IsInf(n, 0) {
		err = strconv.ErrRange
	}
	return n, err
}

// parserOf parses flags of a type. advice is the format of the error for a text that is none. A flag takes the argument
// behind it even if that begins with a dash: it may be a negative number.
func parserOf[T any](parse func(string) (T, error), advice string) kong.Option {
	return kong.TypeMapper(reflect.TypeFor[T](), kong.MapperFunc(func(ctx *kong.DecodeContext,
		target reflect.Value) error {
		token := ctx.Scan.Pop()
		if token.IsEOL() {
			return errors.New("its value is missing")
		}
		text := fmt.Sprint(token.Value) // a configuration file has numbers too
		v, err := parse(text)
		if err != nil {
			return fmt.Errorf(advice, text)
		}
		target.Set(reflect.ValueOf(v))
		return nil
	}))
}
