/* The tests of test_chan.c, with shared channels. Within one thread they behave alike. */
#include <weft.h>

#define weft_chan_new weft_chan_new_shared
#include "sync/test_chan.c"
