package probe

import (
	"os"
	"testing"

	"gperf/internal/testutil/programs"
)

// The test programs, by how they are compiled.
var (
	functionsC        = programs.C("testdata/functions.c", "-O1", "-g")
	functionsStripped = programs.C("testdata/functions.c", "-O1", "-s")
	functionsCXX      = programs.C("testdata/functions.cc", "-O1")
	functionsGo       = programs.Go("testdata/functions.go")
	functionsGoBare   = programs.Go("testdata/functions.go", "-ldflags=-s -w")
	usdtC             = programs.C("testdata/usdt.c", "-O1")
	argsGo            = programs.Go("testdata/args.go")
	argsC             = programs.C("testdata/args.c", "-g", "-O2")
	valuesCXXs        = []*programs.Program{programs.C("testdata/values.cc", "-std=c++17", "-g", "-O0"),
		programs.C("testdata/values.cc", "-std=c++17", "-g", "-O2")}
	argsCs = []*programs.Program{
		argsC,
		programs.C("testdata/args.c", "-g", "-O0"),
		programs.C("testdata/args.c", "-g", "-O2", "-gdwarf-4"),
		programs.C("testdata/args.c", "-g", "-O2", "-gdwarf-2"),
		programs.C("testdata/args.c", "-g", "-O1", "-fno-omit-frame-pointer"),
		programs.C("testdata/args.c", "-g", "-O0", "-gdwarf-4", "-no-pie"),
	}
)

func TestMain(m *testing.M) { os.Exit(programs.Run(m)) }
