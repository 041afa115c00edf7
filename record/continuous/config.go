package continuous

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// DefaultConfig is the file with flags that is read if it exists.
const DefaultConfig = "/etc/gperf/continuous.conf"

// config reads the settings.
type config struct {
	opts *Options
	good []string // the flags of the last file without errors; nil before
}

// load reads the settings. If the file has errors and is not the first one, it reports them, and returns the settings
// of the last file without errors.
func (c *config) load() (*Settings, error) {
	flags, err := readFlags(c.opts.Config)
	if err == nil {
		var s *Settings
		if s, err = c.opts.Parse(flags); err == nil {
			c.good = flags
			return s, nil
		}
	}
	if c.good == nil {
		return nil, err
	}
	c.opts.Notice(fmt.Errorf("recording with the previous flags: %s: %w", c.opts.Config, err))
	return c.opts.Parse(c.good)
}

// readFlags returns the flags in a file. The default file need not exist.
func readFlags(path string) ([]string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && path == DefaultConfig {
		return []string{}, nil
	}
	if err != nil {
		return nil, err
	}
	flags := []string{}
	for i, line := range strings.Split(string(b), "\n") {
		words, err := splitWords(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
		flags = append(flags, words...)
	}
	return flags, nil
}

// splitWords splits a line at blanks, as a shell does: quotes ' and " keep blanks in words, and # begins a comment.
func splitWords(line string) (words []string, err error) {
	var word strings.Builder
	inWord, quote := false, rune(0)
	end := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	for _, c := range line {
		switch {
		case c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == ' ' || c == '\t' || c == '\r':
			end()
		case c == '#' && !inWord:
			return words, nil
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("the quote %c does not end", quote)
	}
	end()
	return words, nil
}
