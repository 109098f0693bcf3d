package admin

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"probity/coordinator/jobdir"
	"probity/internal/pipeline"
)

// sumsFile has the SHA-256 of each other file of a backup, as sha256sum writes it. A damaged log of the state store
// looks like one that ended earlier, so the store itself cannot tell.
const sumsFile = "SHA256SUMS"

func sumLine(sum []byte, name string) string { return fmt.Sprintf("%x  %s\n", sum, name) }

// errNoSums is the error of a backup without sumsFile: an older program made it, or it is a data folder.
var errNoSums = errors.New("there is no file " + sumsFile)

// compareSums reads the files of a backup and returns those that are not as they were written, are missing or were
// added. Result files are left out: they are made again from the answers.
func compareSums(ctx context.Context, dir string) (wrong []string, err error) {
	want, err := readSums(dir)
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == sumsFile || isResultFile(name) {
			return err
		}
		line, listed := want[name]
		delete(want, name)
		if !listed {
			wrong = append(wrong, fmt.Sprintf("%q was added", name))
			return nil
		}
		sum, err := sumFile(ctx, filepath.Join(dir, filepath.FromSlash(name)))
		if err == nil && sumLine(sum, name) != line {
			wrong = append(wrong, fmt.Sprintf("%q is changed", name))
		}
		return err
	})
	for name := range want {
		if !isResultFile(name) {
			wrong = append(wrong, fmt.Sprintf("%q is missing", name))
		}
	}
	slices.Sort(wrong)
	return wrong, err
}

// readSums returns the lines of a backup's sumsFile by the names in them. A line that is damaged matches no file.
func readSums(dir string) (lines map[string]string, err error) {
	f, err := os.Open(filepath.Join(dir, sumsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoSums
	} else if err != nil {
		return nil, err
	}
	lines = map[string]string{}
	for r := bufio.NewReader(f); err == nil; {
		var line string
		line, err = r.ReadString('\n')
		if line != "" {
			_, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
			lines[name] = line
		}
	}
	if err == io.EOF {
		err = nil
	}
	return lines, errors.Join(err, f.Close())
}

func sumFile(ctx context.Context, file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, pipeline.ContextReader{Context: ctx, Reader: f})
	return sum.Sum(nil), errors.Join(err, f.Close())
}

func isResultFile(name string) bool {
	is, _ := path.Match(jobdir.FolderName+"/*/"+jobdir.KindResult+"-*", name)
	return is
}
