package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
)

// file is a file of a release.
type file struct {
	path    string // with slashes
	content []byte
	mode    fs.FileMode
}

// filesIn reads a file, or all files of a folder, below root, in the order of their names.
func filesIn(root, name string) (files []file, err error) {
	err = fs.WalkDir(os.DirFS(root), name, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(root, at))
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if path.Ext(at) == ".sh" {
			mode = 0o755
		}
		files = append(files, file{at, content, mode})
		return nil
	})
	return files, err
}

// writeArchive writes a tar.gz of files in one folder.
func writeArchive(to, folder string, files []file, date time.Time) error {
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	archive := tar.NewWriter(compressed)
	for _, f := range files {
		head := tar.Header{Name: path.Join(folder, f.path), Mode: int64(f.mode), Size: int64(len(f.content)), ModTime: date,
			Format: tar.FormatPAX}
		if err := archive.WriteHeader(&head); err != nil {
			return err
		}
		if _, err := archive.Write(f.content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	if err := compressed.Close(); err != nil {
		return err
	}
	return os.WriteFile(to, packed.Bytes(), 0o644)
}
