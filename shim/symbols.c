/* symbols.c - reads ELF symbol tables. See symbols.h.
 *
 * .symtab if the file has it, which names static functions as well, else .dynsym.
 */
#define _GNU_SOURCE
#include "symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { SYMBOLS_AT_ONCE = 512 };

struct table {
    uint64_t offset, count; /* of symbols */
    uint64_t names, names_bytes;
};

static bool read_at(int file, uint64_t offset, void *to, size_t bytes)
{
    return offset <= INT64_MAX && pread(file, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

static bool section_read(int file, const Elf64_Ehdr *head, uint64_t index, Elf64_Shdr *section)
{
    return index < head->e_shnum &&
           read_at(file, head->e_shoff + index * sizeof(*section), section, sizeof(*section));
}

/* The better of the file's symbol tables. */
static bool table_find(int file, struct table *table)
{
    Elf64_Ehdr head;
    Elf64_Shdr section, names, best = {0};
    if (!read_at(file, 0, &head, sizeof(head)) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_shentsize != sizeof(section))
        return false;
    for (uint64_t i = 0; i < head.e_shnum && best.sh_type != SHT_SYMTAB; i++) {
        if (!section_read(file, &head, i, &section))
            return false;
        if (section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM)
            best = section;
    }
    if (best.sh_type == 0 || best.sh_entsize != sizeof(Elf64_Sym) ||
        !section_read(file, &head, best.sh_link, &names))
        return false;
    *table = (struct table){best.sh_offset, best.sh_size / sizeof(Elf64_Sym), names.sh_offset,
                            names.sh_size};
    return true;
}

static bool is_function_at(const Elf64_Sym *symbol, uint64_t offset)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF &&
           offset - symbol->st_value < symbol->st_size;
}

/* The symbol whose function `offset` lies in. */
static bool table_search(int file, const struct table *table, uint64_t offset, Elf64_Sym *found)
{
    static Elf64_Sym symbols[SYMBOLS_AT_ONCE]; /* the stack may be small */
    for (uint64_t done = 0; done < table->count;) {
        uint64_t left = table->count - done;
        size_t some = left < SYMBOLS_AT_ONCE ? (size_t)left : SYMBOLS_AT_ONCE;
        if (!read_at(file, table->offset + done * sizeof(Elf64_Sym), symbols,
                     some * sizeof(Elf64_Sym)))
            return false;
        for (size_t i = 0; i < some; i++) {
            if (is_function_at(&symbols[i], offset)) {
                *found = symbols[i];
                return true;
            }
        }
        done += some;
    }
    return false;
}

/* A name that is no longer than `bytes` is cut. */
static bool name_read(int file, const struct table *table, const Elf64_Sym *symbol, char *name,
                      size_t bytes)
{
    if (symbol->st_name >= table->names_bytes)
        return false;
    ssize_t got = pread(file, name, bytes - 1, (off_t)(table->names + symbol->st_name));
    if (got <= 0)
        return false;
    name[got] = '\0';
    return name[0] != '\0';
}

static bool file_is(int file, const struct loaded_module *module)
{
    struct stat now;
    return module->file.st_ino != 0 && fstat(file, &now) == 0 &&
           now.st_dev == module->file.st_dev && now.st_ino == module->file.st_ino &&
           now.st_mtim.tv_sec == module->file.st_mtim.tv_sec &&
           now.st_mtim.tv_nsec == module->file.st_mtim.tv_nsec;
}

bool symbol_find(const struct loaded_module *module, uint64_t offset, char *name, size_t bytes,
                 uint64_t *into_out)
{
    struct table table;
    Elf64_Sym symbol;
    if (module->file.st_ino == 0 || !S_ISREG(module->file.st_mode))
        return false;
    int file = open(module->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return false;
    bool found = file_is(file, module) && table_find(file, &table) &&
                 table_search(file, &table, offset, &symbol) &&
                 name_read(file, &table, &symbol, name, bytes);
    close(file);
    if (found)
        *into_out = offset - symbol.st_value;
    return found;
}
