package main

import (
	"fmt"
	"net/netip"
	"reflect"
	"time"

	"github.com/alecthomas/kong"
)

// networks parses flags that are networks, and says how to write one.
func networks() kong.Option {
	return textFlags("network", netip.ParsePrefix, "%q is no network; write CIDR, e.g. 192.0.2.0/24, or 192.0.2.7/32 for one address")
}

// durations parses flags that are lengths of time, and says how to write one.
func durations() kong.Option {
	return textFlags("duration", time.ParseDuration, "%q is no length of time; write for example 30s, 5m or 1h30m")
}

// textFlags parses flags of a type. advice is the format of the error for a text that is none.
func textFlags[T any](name string, parse func(string) (T, error), advice string) kong.Option {
	return kong.TypeMapper(reflect.TypeFor[T](), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		var text string
		if err := ctx.Scan.PopValueInto(name, &text); err != nil {
			return err
		}
		v, err := parse(text)
		if err != nil {
			return fmt.Errorf(advice, text)
		}
		target.Set(reflect.ValueOf(v))
		return nil
	}))
}
