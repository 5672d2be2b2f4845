/* All that holds for select within one thread holds with shared channels: the same tests. */
#include <weft.h>

#define weft_chan_new weft_chan_new_shared
#include "test_select.c"
