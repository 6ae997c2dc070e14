/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * input.h - what the fuzzed programs share: an input is a program, read byte by byte
 */
#ifndef QLINUX_CORE_FUZZ_INPUT_H
#define QLINUX_CORE_FUZZ_INPUT_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../port.h"

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE_NAME__, __LINE__,          \
				#condition);                                                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static const uint8_t *input;
static size_t left;

/* 0 when the input is over. */
static u32 byte(void)
{
	if (!left)
		return 0;
	left--;
	return *input++;
}

static u32 word(void)
{
	u32 low = byte();

	return low | byte() << 8;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
