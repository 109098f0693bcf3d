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
	return kong.TypeMapper(reflect.TypeFor[netip.Prefix](), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		var text string
		if err := ctx.Scan.PopValueInto("network", &text); err != nil {
			return err
		}
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("%q is no network; write CIDR, e.g. 192.0.2.0/24, or 192.0.2.7/32 for one address", text)
		}
		target.Set(reflect.ValueOf(network))
		return nil
	}))
}

// durations parses flags that are lengths of time, and says how to write one.
func durations() kong.Option {
	return kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		var text string
		if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
			return err
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is no length of time; write for example 30s, 5m or 1h30m", text)
		}
		target.Set(reflect.ValueOf(d))
		return nil
	}))
}
