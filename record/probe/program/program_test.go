package program

import (
	"os"
	"testing"

	"gperf/internal/testutil/programs"
)

// The test programs, by how they are compiled.
var (
	functionsC      = programs.C("../testdata/functions.c", "-O1", "-g")
	functionsGo     = programs.Go("../testdata/functions.go")
	functionsGoPIE  = programs.Go("../testdata/functions.go", "-buildmode=pie")
	functionsGoBare = programs.Go("../testdata/functions.go", "-ldflags=-s -w")
	functionsGoByC  = programs.Cgo("../testdata/functions.go", "-ldflags=-linkmode=external")
	functionsGoRace = programs.Cgo("../testdata/functions.go", "-race")
	usdtC           = programs.C("../testdata/usdt.c", "-O1")
)

func TestMain(m *testing.M) { os.Exit(programs.Run(m)) }
