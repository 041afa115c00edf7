package bpf

//go:generate go run shared.go
//go:generate go tool bpf2go -target amd64,arm64 -tags !386 -cflags "-O2 -g -mcpu=v3 -Wall -Werror -Wno-unused-function" -type head -type control_value -type mapping -type table -type process -type copy_head -type copy_room -type file_key -type file_table unwind unwind.bpf.c
//go:generate go tool bpf2go -target amd64,arm64 -tags !386 -cflags "-O2 -g -mcpu=v3 -Wall -Werror -Wno-unused-function" -no-global-types emit emit.bpf.c
//go:generate go tool bpf2go -target amd64,arm64 -tags !386 -cflags "-O2 -g -mcpu=v3 -Wall -Werror -Wno-unused-function" -no-global-types span span.bpf.c
//go:generate go tool bpf2go -target amd64,arm64 -tags !386 -cflags "-O2 -g -mcpu=v3 -Wall -Werror -Wno-unused-function" -no-global-types -type wait -type waker -type sum_key -type sum -type goroutine_key offcpu offcpu.bpf.c
//go:generate go tool bpf2go -target amd64,arm64 -tags !386 -cflags "-O2 -g -mcpu=v3 -Wall -Werror -Wno-unused-function" -no-global-types -type count_key -type count count count.bpf.c
//go:generate go tool bpf2go -target amd64,arm64 -tags !386 -cflags "-O2 -g -mcpu=v3 -Wall -Werror -Wno-unused-function" -no-global-types verdict verdict.bpf.c
//go:generate go tool bpf2go -target amd64,arm64 -tags !386 -cflags "-O2 -g -mcpu=v3 -Wall -Werror -Wno-unused-function" -no-global-types -type sleeper -type mode sleep sleep.bpf.c
