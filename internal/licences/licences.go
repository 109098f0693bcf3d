package licences

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
)

//go:embed texts.gz
var texts []byte

// Write writes all texts, each after the names of what it covers.
func Write(to io.Writer) error {
	unpacked, err := gzip.NewReader(bytes.NewReader(texts))
	if err != nil {
		return err
	}
	_, err = io.Copy(to, unpacked)
	return err
}
