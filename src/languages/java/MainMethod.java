import java.util.List;
import java.util.Set;
import javax.lang.model.element.Element;
import javax.lang.model.element.ElementKind;
import javax.lang.model.element.ExecutableElement;
import javax.lang.model.element.Modifier;
import javax.lang.model.element.TypeElement;
import javax.lang.model.element.VariableElement;
import javax.lang.model.type.ArrayType;
import javax.lang.model.type.DeclaredType;
import javax.lang.model.type.TypeKind;
import javax.lang.model.type.TypeMirror;

/** What the java command takes for a main: inherited from a class too, never from an interface. */
final class MainMethod {
  /** Since then it need be neither static nor public, nor take arguments. */
  private static final int INSTANCE_MAIN_SINCE = 25;

  static boolean isIn(TypeElement type) {
    for (TypeElement at = type; at != null; at = superclassOf(at)) {
      for (Element member : at.getEnclosedElements()) {
        if (member.getKind() == ElementKind.METHOD && isMain(type, (ExecutableElement) member)) {
          return true;
        }
      }
    }
    return false;
  }

  private static TypeElement superclassOf(TypeElement type) {
    TypeMirror parent = type.getSuperclass();
    return parent.getKind() == TypeKind.DECLARED
        ? (TypeElement) ((DeclaredType) parent).asElement()
        : null;
  }

  private static boolean isMain(TypeElement type, ExecutableElement method) {
    if (!method.getSimpleName().contentEquals("main")) return false;
    if (method.getReturnType().getKind() != TypeKind.VOID) return false;
    Set<Modifier> modifiers = method.getModifiers();
    boolean isStatic = modifiers.contains(Modifier.STATIC);
    boolean takesArguments = takesStrings(method);
    if (isStatic && takesArguments && modifiers.contains(Modifier.PUBLIC)) return true;
    if (Runtime.version().feature() < INSTANCE_MAIN_SINCE) return false;
    if (modifiers.contains(Modifier.PRIVATE) || modifiers.contains(Modifier.ABSTRACT)) return false;
    return (takesArguments || method.getParameters().isEmpty()) && (isStatic || canBeMade(type));
  }

  private static boolean takesStrings(ExecutableElement method) {
    List<? extends VariableElement> parameters = method.getParameters();
    if (parameters.size() != 1 || parameters.get(0).asType().getKind() != TypeKind.ARRAY) {
      return false;
    }
    TypeMirror item = ((ArrayType) parameters.get(0).asType()).getComponentType();
    return item.toString().equals("java.lang.String");
  }

  private static boolean canBeMade(TypeElement type) {
    if (type.getKind() == ElementKind.INTERFACE || type.getModifiers().contains(Modifier.ABSTRACT)) {
      return false;
    }
    for (Element member : type.getEnclosedElements()) {
      if (member.getKind() != ElementKind.CONSTRUCTOR) continue;
      ExecutableElement constructor = (ExecutableElement) member;
      boolean isPrivate = constructor.getModifiers().contains(Modifier.PRIVATE);
      if (constructor.getParameters().isEmpty() && !isPrivate) return true;
    }
    return false;
  }
}
