/*
 * Run a fuzz target over the files of the given folders, without a fuzzer. The corpus is therefore
 * a test with any compiler. Print the name of each file before the target runs, so that the name is
 * visible if the target aborts.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        exit(1);
    }
    size_t bytes = (size_t)ftell(file);
    uint8_t *data = malloc(bytes + 1);
    rewind(file);
    if (data == NULL || fread(data, 1, bytes, file) != bytes) {
        perror(path);
        exit(1);
    }
    fclose(file);
    puts(path);
    fflush(stdout);
    LLVMFuzzerTestOneInput(data, bytes);
    free(data);
}

/* Run all files of a folder. Return the number of files. */
static int replay_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        perror(folder);
        exit(1);
    }
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        replay_file(path);
        count++;
    }
    closedir(dir);
    return count;
}

int main(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc; i++)
        count += replay_folder(argv[i]);
    if (count == 0)
        fputs("replay: no files in the given folders\n", stderr);
    return count > 0 ? 0 : 1;
}
