// Package hotspot finds the code of a Java virtual machine, the methods in it, and their callers.
//
// HotSpot keeps all generated code in code heaps. A heap is divided into segments, and the segment map contains a
// byte for each: 0 where a block starts, 255 in unused memory, else the number of segments to go back towards the
// start. A block consists of a header and a blob; a blob consists of a header and code. A blob with a frame size is
// compiled code or a runtime stub: all frames of the blob are of this size. Other blobs are the interpreter, whose
// frames use frame pointers, the stubs that HotSpot assembles when it starts, and adapters, which use no frames.
//
// libjvm.so exports tables of the fields of these structures for debuggers (gHotSpotVMStructs, vmStructs.cpp),
// because they differ between versions. Read reads the tables and the heaps from the memory of a process. Nothing
// in there is trusted: reads are limited, and values checked. A process with corrupt tables loses Java frames only.
package hotspot
