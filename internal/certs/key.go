package certs

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"strings"

	"probity/internal/console"
	"probity/internal/wholefile"
)

// keyCmd rotates the gossip key in three rounds. After each round the file must be copied to every machine and the
// processes reloaded (SIGHUP) before the next round.
type keyCmd struct {
	Add     keyAddCmd     `cmd:"" help:"Round 1: add a new key at the end; it decrypts from now on."`
	Promote keyPromoteCmd `cmd:"" help:"Round 2: move the last key to the front; it encrypts from now on."`
	Prune   keyPruneCmd   `cmd:"" help:"Round 3: keep the first key alone."`
}

// maxKeys bounds the keyring: a rotation needs two.
const maxKeys = 8

type (
	keyAddCmd     struct{ folder }
	keyPromoteCmd struct{ folder }
	keyPruneCmd   struct{ folder }
)

// notPromoted is a comment in the key file between rounds 1 and 2: the order of the keys does not tell these rounds
// apart.
const notPromoted = "# The last key is new and not promoted yet."

// Run adds a key.
func (c keyAddCmd) Run(con *console.IO) error {
	return c.rewrite(con, notPromoted+"\n", "copy it to every machine and send SIGHUP, then: probity certs key promote",
		func(keys [][]byte) ([][]byte, error) {
			return append(keys, newKey()), nil
		})
}

// Run makes the last key the first.
func (c keyPromoteCmd) Run(con *console.IO) error {
	return c.rewrite(con, "", "copy it to every machine and send SIGHUP, then: probity certs key prune",
		func(keys [][]byte) ([][]byte, error) {
			if len(keys) < 2 {
				return nil, fmt.Errorf("%s holds one key; add another first: probity certs key add", c.path(KeyFile))
			}
			last := len(keys) - 1
			return append([][]byte{keys[last]}, keys[:last]...), nil
		})
}

// Run drops all keys but the first.
func (c keyPruneCmd) Run(con *console.IO) error {
	path := c.path(KeyFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if bytes.Contains(text, []byte(notPromoted)) {
		return fmt.Errorf("%s has a new key that is not promoted, and prune would drop it; promote it first: probity certs key promote", path)
	}
	return c.rewrite(con, "", "copy it to every machine and send SIGHUP; the rotation is done",
		func(keys [][]byte) ([][]byte, error) {
			if len(keys) == 1 {
				return nil, fmt.Errorf("%s holds one key: there is nothing to prune", path)
			}
			return keys[:1], nil
		})
}

// rewrite replaces the key file atomically: a reader sees the old file or the new one. The new one begins with head.
func (f folder) rewrite(con *console.IO, head, next string, change func([][]byte) ([][]byte, error)) error {
	path := f.path(KeyFile)
	keys, err := ReadKeys(path)
	if err != nil {
		return err
	}
	if keys, err = change(keys); err != nil {
		return err
	}
	if len(keys) > maxKeys {
		return fmt.Errorf("%s would hold %d keys; prune it first", path, len(keys))
	}
	b := bytes.NewBufferString(head)
	for _, k := range keys {
		b.Write(keyLine(k))
	}
	if err := wholefile.ReplaceSecret(path, b.Bytes()); err != nil {
		return err
	}
	fmt.Fprintf(con.Out, "%s\t%s: %s\n", path, console.Counted(len(keys), "key"), next)
	return nil
}

// newKey makes a gossip key.
func newKey() []byte {
	key := make([]byte, 32)
	rand.Read(key)
	return key
}

func keyLine(key []byte) []byte {
	return append([]byte(base64.StdEncoding.EncodeToString(key)), '\n')
}

// ReadKeys reads a key file: one key a line, 16, 24 or 32 octets in base64; the first encrypts. Lines that begin
// with # are comments.
func ReadKeys(path string) ([][]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	keys, err := parseKeys(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

func parseKeys(text string) ([][]byte, error) {
	var keys [][]byte
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(line)
		if n := len(key); err != nil || n != 16 && n != 24 && n != 32 {
			return nil, fmt.Errorf("line %d is not a key of 16, 24 or 32 octets in base64", i+1)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 || len(keys) > maxKeys {
		return nil, fmt.Errorf("%d keys; write 1 to %d, one a line", len(keys), maxKeys)
	}
	return keys, nil
}
