package engine

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
)

// maxLayers bounds the layers of a table: the whole table, an operator's file, a retry schedule and RespectTerms are
// four.
const maxLayers = 8

// termsLayer is RespectTerms as a layer. It is not TOML, so that no file can equal it.
var termsLayer = []byte("respect terms")

// Layers are what the table was made from, in order: a whole table, then the overrides. ReadLayers makes the same table
// from them in another process. They must not be changed.
func (t *Table) Layers() [][]byte { return t.layers }

// ReadLayers makes the table with the given hash from its layers. Layers with another hash are an error, and so is what
// this version does not understand: a key that only a newer one knows, for example.
func ReadLayers(hash [8]byte, layers [][]byte) (*Table, error) {
	if len(layers) == 0 || len(layers) > maxLayers {
		return nil, fmt.Errorf("a provider table of %d layers: from 1 to %d", len(layers), maxLayers)
	}
	for i, data := range layers {
		if len(data) > maxTableBytes {
			return nil, fmt.Errorf("layer %d of a provider table has %d bytes: at most %d", i+1, len(data),
				maxTableBytes)
		}
	}
	if hashOf(layers) != hash {
		return nil, errors.New("the provider table was damaged on its way: its hash is another")
	}
	t, err := ParseTable(layers[0])
	for i := 1; err == nil && i < len(layers); i++ {
		if bytes.Equal(layers[i], termsLayer) {
			t, err = t.RespectTerms()
		} else {
			t, err = t.Override(layers[i])
		}
	}
	return t, err
}

// RespectsTerms reports whether t is a table that probes no provider whose terms forbid address verification.
func (t *Table) RespectsTerms() bool {
	return !slices.ContainsFunc(t.Providers, func(p *Provider) bool { return p.TermsForbid && p.Probe })
}

// over returns the table's layers with one more.
func (t *Table) over(data []byte) [][]byte { return append(slices.Clip(t.layers), data) }

// hashOf chains the layers, so that their order and boundaries count.
func hashOf(layers [][]byte) (hash [8]byte) {
	for _, data := range layers {
		sum := sha256.New()
		sum.Write(hash[:])
		sum.Write(data)
		hash = [8]byte(sum.Sum(nil))
	}
	return hash
}
