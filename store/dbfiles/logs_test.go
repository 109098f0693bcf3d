package dbfiles

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// TestWriteLongerThanPreallocation: preallocation never overwrites written data.
func TestWriteLongerThanPreallocation(t *testing.T) {
	fs, path := New(vfs.Default), filepath.Join(t.TempDir(), "1.log")
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	long := bytes.Repeat([]byte{1}, 2*preallocStep+1)
	for _, n := range []int{1, len(long), 3, preallocStep, preallocStep} {
		_, err := f.Write(append([]byte(nil), long[:n]...))
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	wrote := 1 + len(long) + 3 + 2*preallocStep
	require.Equal(t, wrote, bytes.Count(b, []byte{1}))
	require.Equal(t, wrote, bytes.IndexByte(b, 0))
}
