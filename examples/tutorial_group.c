/* Tutorial, step 6: fibers that use local variables of their parent. */
#include <weft.h>

#include <errno.h>
#include <stdio.h>

typedef struct job {
    int number;
    int square; /* the result */
} job;

static weft_value square(void *arg)
{
    job *j = arg;
    int rc = weft_sleep(0.01 * j->number);
    if (rc < 0) {
        printf("job %d: cancelled\n", j->number);
        return rc;
    }
    if (j->number == 13)
        return weft_fail(-ERANGE, "square: no work with %d", j->number);
    j->square = j->number * j->number;
    return 0;
}

/* The fibers use jobs, a local variable. All of them end before this function returns. */
static int sum_of_squares(const int *numbers, int n)
{
    job jobs[8] = {{0}};
    int sum = 0, rc;
    WEFT_GROUP(g, rc) {
        for (int i = 0; i < n; i++) {
            jobs[i].number = numbers[i];
            weft_group_spin(&g, square, &jobs[i]);
        }
    }
    for (int i = 0; i < n; i++)
        sum += jobs[i].square;
    return rc < 0 ? rc : sum;
}

int main(void)
{
    printf("sum of squares: %d\n", sum_of_squares((int[]){1, 2, 3}, 3));

    if (sum_of_squares((int[]){1, 13, 500}, 3) < 0)
        printf("error: %s\n", weft_error()->message);

    int sum = 0, rc;
    WEFT_CANCEL_AFTER(0.1, rc) {
        sum = sum_of_squares((int[]){2, 600}, 2);
    }
    printf("in time: %s\n", rc == 0 && sum >= 0 ? "yes" : "no");
}
