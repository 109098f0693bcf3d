package csvfile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/flate"
)

// The signatures of a zip archive (APPNOTE.TXT 4.3).
var (
	zipLocal      = []byte("PK\x03\x04")
	zipDescriptor = []byte("PK\x07\x08")
)

const (
	zipLocalBytes   = 30
	zipEncrypted    = 1 << 0
	zipStreamed     = 1 << 3 // sizes and checksum follow the data
	zipStored       = 0
	zipDeflated     = 8
	zipUnknown      = 1<<32 - 1 // a size that the extra field has
	maxZipSkipped   = 64 << 20  // unpacked bytes of the entries that are no lists
	workbookInWords = "the zip archive is a spreadsheet, not a CSV file: open it, save it as CSV " +
		"(in Excel: Save As, CSV UTF-8), and send that file"
)

// zipEntry is one entry of an archive, read by its local header, without the directory at the archive's end.
type zipEntry struct {
	name     string
	src      *bufio.Reader
	data     io.Reader
	streamed bool   // sizes and checksum follow the data
	want     uint32 // checksum, unless streamed
	sum      hash.Hash32
}

// zipFile is the one list of an archive. What systems add to an archive is passed over, before the list and after it.
type zipFile struct {
	*zipEntry
	skipped int64
}

// openZip finds the list.
func openZip(src *bufio.Reader) (*zipFile, error) {
	z := &zipFile{}
	if err := z.next(src); err != nil {
		return nil, err
	}
	if z.zipEntry == nil {
		return nil, refuse(Unacceptable, 0, "the zip archive holds no file; put one CSV file into it")
	}
	return z, nil
}

// next sets the entry to the next list, or to nil at the end of the entries.
func (z *zipFile) next(src *bufio.Reader) error {
	for {
		z.zipEntry = nil
		if head, err := src.Peek(4); !bytes.Equal(head, zipLocal) {
			if errors.Is(err, io.EOF) {
				err = nil // at worst the directory is missing, which is not needed
			}
			return err
		}
		entry, err := readZipEntry(src)
		if err != nil {
			return err
		}
		if isWorkbookPart(entry.name) {
			return refuse(Unacceptable, 0, workbookInWords)
		}
		if !isSystemEntry(entry.name) {
			z.zipEntry = entry
			return nil
		}
		n, err := io.Copy(io.Discard, io.LimitReader(entry, maxZipSkipped-z.skipped+1))
		if err != nil {
			return err
		}
		z.skipped += n
		if z.skipped > maxZipSkipped {
			return refuse(Unacceptable, 0, "the zip archive holds more than %d MiB next to its list; "+
				"put only the CSV file into it", maxZipSkipped>>20)
		}
	}
}

// isSystemEntry reports whether an entry is a folder or what macOS and Windows add to an archive.
func isSystemEntry(name string) bool {
	if strings.HasSuffix(name, "/") || strings.HasPrefix(name, "__MACOSX/") {
		return true
	}
	base := path.Base(name)
	return strings.HasPrefix(base, "._") || slices.Contains([]string{".DS_Store", "Thumbs.db", "desktop.ini"}, base)
}

// isWorkbookPart reports whether an entry belongs to a spreadsheet: Office Open XML (ECMA-376 part 2), OpenDocument
// (part 2, section 3.3) or Numbers.
func isWorkbookPart(name string) bool {
	if strings.HasPrefix(name, "Index/") {
		return strings.HasSuffix(name, ".iwa")
	}
	parts := []string{"[Content_Types].xml", "_rels/.rels", "mimetype", "META-INF/manifest.xml", "Index.zip"}
	return slices.Contains(parts, name) || strings.HasPrefix(name, "xl/") || strings.HasPrefix(name, "docProps/")
}

// readZipEntry reads the local header of an entry (APPNOTE.TXT 4.3.7).
func readZipEntry(src *bufio.Reader) (*zipEntry, error) {
	var h [zipLocalBytes]byte
	if _, err := io.ReadFull(src, h[:]); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	nameLen := int(le.Uint16(h[26:]))
	rest := make([]byte, nameLen+int(le.Uint16(h[28:])))
	if _, err := io.ReadFull(src, rest); err != nil {
		return nil, err
	}
	flags, method, size := le.Uint16(h[6:]), le.Uint16(h[8:]), uint64(le.Uint32(h[18:]))
	if size == zipUnknown {
		size = zip64Size(rest[nameLen:])
	}
	// Explorer of older Windows writes backslashes, against APPNOTE.TXT 4.4.17.
	name := strings.ReplaceAll(string(rest[:nameLen]), `\`, "/")
	z := &zipEntry{name: name, src: src, streamed: flags&zipStreamed != 0, want: le.Uint32(h[14:]),
		sum: crc32.NewIEEE()}
	isFolder := strings.HasSuffix(name, "/")
	if isFolder && method == zipStored && z.streamed { // some programs write no descriptor then
		head, _ := src.Peek(4)
		z.streamed = bytes.Equal(head, zipDescriptor)
	}
	switch {
	case flags&zipEncrypted != 0:
		return nil, refuse(Unacceptable, 0, "the zip archive is encrypted; send it without a password")
	case method == zipDeflated:
		z.data = flate.NewReader(src)
	case method == zipStored && (size > 0 || isFolder || !z.streamed):
		z.data = io.LimitReader(src, int64(min(size, 1<<62)))
	default:
		return nil, refuse(Unacceptable, 0, "the zip archive is packed by %s, which cannot be read from a stream; "+
			"use deflate, or gzip", zipMethod(method))
	}
	return z, nil
}

// zipMethod names a method of compression (APPNOTE.TXT 4.4.5).
func zipMethod(method uint16) string {
	switch method {
	case zipStored:
		return "storing data of unknown length"
	case 9:
		return "Deflate64, as Windows packs files over 2 GB"
	case 12:
		return "bzip2"
	case 14:
		return "LZMA"
	}
	return fmt.Sprintf("method %d", method)
}

// zip64Size is the compressed size in the extra field 0x0001 (APPNOTE.TXT 4.5.3), where it follows the uncompressed
// one.
func zip64Size(extra []byte) uint64 {
	for len(extra) >= 4 {
		id, n := binary.LittleEndian.Uint16(extra), int(binary.LittleEndian.Uint16(extra[2:]))
		if len(extra) < 4+n {
			break
		}
		if id == 1 && n >= 16 {
			return binary.LittleEndian.Uint64(extra[12:])
		}
		extra = extra[4+n:]
	}
	return zipUnknown
}

// Read reads the data of the entry. At its end it verifies the checksum.
func (z *zipEntry) Read(p []byte) (int, error) {
	n, err := z.data.Read(p)
	z.sum.Write(p[:n])
	if err == io.EOF {
		if err := z.checkEnd(); err != nil {
			return n, err
		}
	}
	return n, err
}

// checkEnd verifies the entry's checksum. The source is then at the next header.
func (z *zipEntry) checkEnd() error {
	if z.streamed { // signature and sizes of 8 bytes are optional (APPNOTE.TXT 4.3.9)
		if head, _ := z.src.Peek(4); bytes.Equal(head, zipDescriptor) {
			_, _ = z.src.Discard(4) // they are there: Peek has seen them
		}
		head, _ := z.src.Peek(24)
		if len(head) < 12 {
			return refuse(Unacceptable, 0, errPackedFormat, "zip", io.ErrUnexpectedEOF)
		}
		skip := 12
		if len(head) >= 24 && !bytes.HasPrefix(head[12:], []byte("PK")) && bytes.HasPrefix(head[20:], []byte("PK")) {
			skip = 20
		}
		z.want = binary.LittleEndian.Uint32(head)
		_, _ = z.src.Discard(skip) // as above
	}
	if z.want != z.sum.Sum32() {
		return refuse(Unacceptable, 0, errPackedFormat, "zip", errors.New("checksum differs"))
	}
	return nil
}

// Read reads the list. At its end it verifies that no second list follows.
func (z *zipFile) Read(p []byte) (int, error) {
	if z.zipEntry == nil {
		return 0, io.EOF
	}
	n, err := z.zipEntry.Read(p)
	if err != io.EOF {
		return n, err
	}
	src, first := z.src, z.name
	if err := z.next(src); err != nil {
		return n, err
	}
	if z.zipEntry != nil {
		return n, refuse(Unacceptable, 0, "the zip archive holds more than one file: %s, %s; send each list by itself",
			show(first), show(z.name))
	}
	if _, err := io.Copy(io.Discard, src); err != nil { // read the directory, so that the sender can finish
		return n, err
	}
	return n, io.EOF
}
