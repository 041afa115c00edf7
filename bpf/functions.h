/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The functions that runtimes run, of the current task: after the native frames of a walk.
 */
#ifndef FUNCTIONS_H
#define FUNCTIONS_H

#include "java.h"
#include "perl.h"
#include "php.h"
#include "python.h"
#include "ruby.h"
#include "v8.h"

/* functions stores the frames of the functions that the process's runtime runs. */
static inline_always void functions(struct walk *w, __u32 slot)
{
	struct runtime *r;

	if (!w->runtime)
		return;
	r = bpf_map_lookup_elem(&runtimes, &w->runtime);
	if (!r)
		return;
	switch (r->kind) {
	case RUNTIME_PYTHON:
		python(w, slot);
		break;
	case RUNTIME_RUBY:
		ruby(w, slot);
		break;
	case RUNTIME_PERL:
		perl(w, slot);
		break;
	case RUNTIME_JAVA:
		java(w, slot);
		break;
	case RUNTIME_PHP:
		php(w, slot);
		break;
	case RUNTIME_V8:
		v8(w, slot);
		break;
	}
}

#endif
