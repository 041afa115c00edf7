// Package hotspot finds the code of a Java virtual machine, the methods in it, and their callers.
//
// HotSpot keeps all generated code in code heaps. A heap is divided into segments, and its segment map has a byte for
// each: 0 where a block starts, 255 in unused memory, else the number of segments to go back towards the start. A block
// has a header and a blob; a blob has a header and code. A blob with a frame size is compiled code or a runtime stub:
// all its frames have this size. Other blobs are the interpreter, whose frames have frame pointers, the stubs that
// HotSpot assembles at its start, and adapters, which have no frames.
//
// libjvm.so exports tables of the fields of these structures for debuggers (gHotSpotVMStructs, vmStructs.cpp), because
// they differ between versions. Read reads the tables and the heaps from the memory of a process. Nothing in there is
// trusted: reads are limited, and values checked. A process with corrupt tables loses its Java frames only.
package hotspot
