package datafolder

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"probity/internal/wholefile"
)

// FirstPasswordFile is the file in the data folder that holds the password of the first admin.
const FirstPasswordFile = "first-admin-password"

// CoordinatorFile holds the coordinator's id and its term (the number of starts), by which probers tell it from
// another.
const CoordinatorFile = "coordinator.id"

// NextTerm returns the id of a data folder's coordinator, a new one with that name if it has none, with the next term.
// The term is durable before it is sent to any node.
func NextTerm(dir, name string) (id string, term uint64, err error) {
	path := filepath.Join(dir, CoordinatorFile)
	id, term, err = readTerm(path)
	if errors.Is(err, fs.ErrNotExist) {
		random := make([]byte, 4)
		if _, err := rand.Read(random); err != nil {
			return "", 0, err
		}
		id, err = name+"-"+hex.EncodeToString(random), nil
	} else if err != nil {
		return "", 0, err
	}
	term++
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return id, term, err
	}
	return id, term, wholefile.ReplaceSecret(path, fmt.Appendf(nil, "%s %d\n", id, term))
}

func readTerm(path string) (id string, term uint64, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", 0, err
	}
	fields := strings.Fields(string(data))
	if len(fields) != 2 {
		return "", 0, fmt.Errorf("%s is damaged; without it this is another coordinator, which probers refuse for a minute", path)
	}
	term, err = strconv.ParseUint(fields[1], 10, 64)
	return fields[0], term, err
}
