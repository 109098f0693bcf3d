package phrase

import "bytes"

// maxName bounds the bytes of a name that is blanked: a local part has at most 64 (RFC 5321 section 4.5.3.1.1).
const maxName = 320

// BlankName replaces each occurrence of a name in words, as AppendWords makes them, by "@": it is quoted, not said. It
// works in place and does not allocate.
func BlankName(words []byte, name string) []byte {
	var buffer [maxName + 8]byte
	quoted := append(buffer[:0], ' ')
	if len(name) > maxName/codedBytes {
		return words
	}
	quoted = AppendWords(quoted, name)
	if len(quoted) < 3 { // " x " is the shortest
		return words
	}
	for from := 0; ; {
		i := bytes.Index(words[from:], quoted)
		if i < 0 {
			return words
		}
		from += i + 1 // behind the space
		words[from] = '@'
		words = append(words[:from+1], words[from+len(quoted)-2:]...)
	}
}
