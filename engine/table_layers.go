package engine

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
)

// maxLayers bounds what a table is made of: the whole table, an operator's file, a retry schedule and the word to respect terms are four.
const maxLayers = 8

// termsLayer is RespectTerms as a layer. It is no TOML, so that no file can be taken for it.
var termsLayer = []byte("respect terms")

// Layers are what the table was made of, in order: a whole table, then what was laid over it. ReadLayers makes the same table of them
// in another process. They must not be changed.
func (t *Table) Layers() [][]byte { return t.layers }

// ReadLayers makes the table of a hash from its layers. Layers that make another hash are an error, and so is what this engine does not
// understand: a key that only a newer one knows, for example.
func ReadLayers(hash [8]byte, layers [][]byte) (*Table, error) {
	if len(layers) == 0 || len(layers) > maxLayers {
		return nil, fmt.Errorf("a provider table of %d layers: from 1 to %d", len(layers), maxLayers)
	}
	for i, data := range layers {
		if len(data) > maxTableBytes {
			return nil, fmt.Errorf("layer %d of a provider table has %d bytes: at most %d", i+1, len(data), maxTableBytes)
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

// RespectsTerms reports a table that asks no provider whose terms forbid to verify addresses.
func (t *Table) RespectsTerms() bool {
	return !slices.ContainsFunc(t.Providers, func(p *Provider) bool { return p.TermsForbid && p.Probe })
}

// over is the table's layers with one more.
func (t *Table) over(data []byte) [][]byte { return append(slices.Clip(t.layers), data) }

// hashOf chains the layers, so that their order and their borders count.
func hashOf(layers [][]byte) (hash [8]byte) {
	for _, data := range layers {
		sum := sha256.New()
		sum.Write(hash[:])
		sum.Write(data)
		hash = [8]byte(sum.Sum(nil))
	}
	return hash
}
