/* weft: fibers for C. Everything public, in one include. */
#ifndef WEFT_H
#define WEFT_H

#include <weft/debug.h>
#include <weft/error.h>
#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/scope.h>
#include <weft/time.h>
#include <weft/version.h>

#endif
